"""The honest corpus is read by the module that reads the cheats."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "hacks"))


@pytest.fixture(scope="session")
def judged_honest(request: pytest.FixtureRequest) -> Iterator[Callable]:
    """Results of the kernels that were selected; all are submitted at once."""
    from session import Session

    wanted = [
        item.callspec.params["case"]
        for item in request.session.items
        if "judged_honest" in getattr(item, "fixturenames", ()) and hasattr(item, "callspec")
    ]
    with Session() as session:
        futures = session.submit_all(wanted)
        yield lambda case: futures[case.name].result()
