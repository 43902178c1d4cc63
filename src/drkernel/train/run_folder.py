"""The folder of a training run: what was asked for, on what, and who works in it.

A folder belongs to one configuration and, while a process works in it, to that process alone. The
same command goes on where it stopped; see `drkernel.rollout.directory` for the files of every run.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from drkernel.config import Section
from drkernel.rollout.directory import RunDirectory
from kernelgym.errors import UsageError


@contextmanager
def claimed(folder: Path, settings: Section, kind: str) -> Iterator[RunDirectory]:
    """The run in ``folder``, begun or continued; it is this process's until the end.

    Raises:
        UsageError: it belongs to another configuration, or another process works in it.
    """
    directory = RunDirectory(folder, settings, kind, resume=True)
    with (folder / ".lock").open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(
                f"another process works in {folder}", hint="wait for it, or --out elsewhere"
            ) from error
        yield directory
