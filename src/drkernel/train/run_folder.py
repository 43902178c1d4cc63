"""The folder of a run: what was asked for, on what, and who works in it.

    config.json  the whole configuration, a recipe that repeats the run      environment.json
    metrics.jsonl  checkpoints/  episodes/  ...

A folder belongs to one configuration (its digest) and, while a process works in it, to that one.
"""

from __future__ import annotations

import fcntl
import json
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path

from drkernel.config import Section, digest
from kernelgym.errors import UsageError

_PACKAGES = ("drkernel", "torch", "transformers", "tokenizers", "triton", "numpy")


@contextmanager
def claimed(folder: Path, settings: Section) -> Iterator[bool]:
    """The folder is this process's until the end; gives whether there was a run already.

    Raises:
        UsageError: it belongs to another configuration, or another process works in it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(
                f"another process works in {folder}", hint="wait for it, or --out elsewhere"
            ) from error
        yield _claim(folder, settings)


def _claim(folder: Path, settings: Section) -> bool:
    path, stored = folder / "config.json", folder / "digest"
    if stored.exists():
        if stored.read_text("utf-8").strip() != digest(settings):
            raise UsageError(
                f"{folder} holds a run of another configuration",
                hint=f"--out another directory; what it was: {path}",
            )
        return True
    path.write_text(json.dumps(settings.model_dump(mode="json"), indent=1) + "\n", "utf-8")
    environment = json.dumps(environment_of(), indent=1) + "\n"
    (folder / "environment.json").write_text(environment, "utf-8")
    stored.write_text(digest(settings) + "\n", "utf-8")
    return False


def environment_of() -> dict[str, str]:
    """Versions and machine."""
    found = {"python": platform.python_version(), "machine": platform.platform()}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
