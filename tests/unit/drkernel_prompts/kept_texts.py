"""Texts compared with the files in ``snapshots/``; UPDATE_SNAPSHOTS=1 writes them anew."""

import os
from pathlib import Path

SNAPSHOTS = Path(__file__).parent / "snapshots"


def check(name: str, text: str) -> None:
    path = SNAPSHOTS / f"{name}.txt"
    if os.environ.get("UPDATE_SNAPSHOTS"):
        path.write_text(text)
    assert text == path.read_text(), f"{name}: UPDATE_SNAPSHOTS=1 if this is meant"
