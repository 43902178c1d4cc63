"""A `Task` from whatever names one: a reference file, ``builtin/NAME`` or a KernelBench id.

Reading a task runs none of its code; whether the reference works is the judge's to find out.
"""

from __future__ import annotations

from pathlib import Path

from kernelgym.errors import UsageError
from kernelgym.schema import Task
from kernelgym.tasks.kernelbench import kernelbench_task
from kernelgym.tasks.nearest import did_you_mean
from kernelgym.tasks.registry import PREFIX, builtin_task, builtin_tasks
from kernelgym.tasks.source import read_source


def task_from_file(path: Path, entry_point: str = "Model") -> Task:
    """The task that a reference file in KernelBench's format describes."""
    return Task(
        name=path.stem[:200] or "reference",
        reference=read_source(path, "reference"),
        entry_point=entry_point,
        origin="file",
    )


def find_task(name: str, root: Path | None = None) -> Task:
    """The task of this name; ``root`` is a KernelBench checkout, for ``levelL/N``.

    Raises `UsageError` with the nearest names when there is none.
    """
    if name.startswith(PREFIX):
        return builtin_task(name)
    if name.startswith("level"):
        return kernelbench_task(name, root)
    known = [task.name for task in builtin_tasks()]
    raise UsageError(
        f"no task {name!r}{did_you_mean(name, known) or did_you_mean(PREFIX + name, known)}",
        hint="kernelgym tasks list",
    )
