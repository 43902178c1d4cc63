"""Candidates in a directory, each with its task.

KernelBench's runs are understood as they are: ``level_1_problem_23_sample_0_kernel.py``. For the
built-in tasks a file is called after its task: ``softmax.py``, and ``softmax.2.py`` for the next.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kernelgym.errors import UsageError
from kernelgym.schema import Submission, Task
from kernelgym.tasks.source import read_source

_KERNELBENCH = re.compile(r"level_(\d+)_problem_(\d+)_sample_(\d+)_kernel\.py")
_BUILTIN = re.compile(r"([A-Za-z]\w*)(?:\.(\d+))?\.py")


@dataclass(frozen=True)
class Sample:
    """One candidate file."""

    path: Path
    task: str
    """Name for `find_task`."""
    number: int
    """Which of several candidates for the same task."""


def find_samples(directory: Path, suite: str) -> list[Sample]:
    """Candidates of a suite, ``kernelbench``, ``kernelbench:level2`` or ``builtin``, in order."""
    name, _, level = suite.partition(":")
    if name not in ("kernelbench", "builtin") or (level and name == "builtin"):
        raise UsageError(f"no suite {suite!r}", hint="--suite kernelbench:level2, or builtin")
    if not directory.is_dir():
        raise UsageError(f"{directory} is no directory")
    read = _kernelbench_sample if name == "kernelbench" else _builtin_sample
    found = [sample for path in directory.glob("*.py") if (sample := read(path))]
    samples = [one for one in found if not level or one.task.startswith(f"{level}/")]
    if not samples:
        pattern = "level_L_problem_P_sample_S_kernel.py" if name == "kernelbench" else "TASK.py"
        raise UsageError(f"{directory} holds no candidate of {suite}: files are named {pattern}")
    return sorted(samples, key=lambda one: (_natural(one.task), one.number))


def _natural(name: str) -> list[tuple[int, str]]:
    """So that level1/2 comes before level1/10."""
    return [(int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", name)]


def _kernelbench_sample(path: Path) -> Sample | None:
    match = _KERNELBENCH.fullmatch(path.name)
    if match is None:
        return None
    level, problem, number = match.groups()
    return Sample(path, f"level{level}/{problem}", int(number))


def _builtin_sample(path: Path) -> Sample | None:
    match = _BUILTIN.fullmatch(path.name)
    return Sample(path, f"builtin/{match[1]}", int(match[2] or 0)) if match else None


def submissions(
    samples: list[Sample], find_task: Callable[[str], Task], fields: dict[str, object]
) -> list[Submission]:
    """What is to be judged; each task is read once."""
    tasks: dict[str, Task] = {}
    listed = []
    for sample in samples:
        if sample.task not in tasks:
            tasks[sample.task] = find_task(sample.task)
        source = read_source(sample.path, "candidate")
        listed.append(
            Submission.model_validate({"task": tasks[sample.task], "source": source, **fields})
        )
    return listed
