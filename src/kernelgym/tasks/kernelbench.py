"""Problems of a KernelBench checkout: ``level2/40`` is ``KernelBench/level2/40_*.py`` in it.

Nothing of KernelBench is shipped here; the files are read from where the user has them.
"""

from __future__ import annotations

import os
from pathlib import Path

from kernelgym.errors import UsageError
from kernelgym.schema import Task
from kernelgym.tasks.nearest import did_you_mean
from kernelgym.tasks.source import read_source

ROOT_VARIABLE = "KERNELBENCH_DIR"
_CLONE = "git clone https://github.com/ScalingIntelligence/KernelBench"


def kernelbench_root(root: Path | None) -> Path:
    """Directory that holds ``level1``, ``level2``, ...; raises `UsageError` when there is none."""
    given = root or (Path(os.environ[ROOT_VARIABLE]) if os.environ.get(ROOT_VARIABLE) else None)
    if given is None:
        raise UsageError(
            "a KernelBench problem needs --root, the directory of a KernelBench checkout"
            f" (or ${ROOT_VARIABLE})",
            hint=_CLONE,
        )
    for candidate in (given / "KernelBench", given):
        if (candidate / "level1").is_dir():
            return candidate
    raise UsageError(
        f"{given} is no KernelBench checkout: it has no KernelBench/level1", hint=_CLONE
    )


def problem_files(root: Path, level: int) -> list[Path]:
    """Files of one level, by problem number."""
    files = [path for path in (root / f"level{level}").glob("*_*.py") if _number(path) is not None]
    return sorted(files, key=lambda path: _number(path) or 0)


def _number(path: Path) -> int | None:
    digits = path.name.partition("_")[0]
    return int(digits) if digits.isdecimal() else None


def kernelbench_task(name: str, root: Path | None) -> Task:
    """The task ``levelL/N`` or ``levelL/N_Name``; raises `UsageError` when there is none."""
    directory = kernelbench_root(root)
    level, _, problem = name.partition("/")
    digits = level.removeprefix("level")
    files = problem_files(directory, int(digits)) if digits.isdecimal() else []
    matches = [
        path
        for path in files
        if path.stem == problem or (problem.isdecimal() and _number(path) == int(problem))
    ]
    if not matches:
        names = [f"{level}/{path.stem}" for path in files]
        levels = sorted(path.name for path in directory.glob("level*"))
        where = did_you_mean(name, names) if names else f"; levels there: {', '.join(levels)}"
        raise UsageError(
            f"no problem {name!r} in {directory}{where}", hint=f"ls {directory / level}"
        )
    return Task(
        name=f"{level}/{matches[0].stem}",
        reference=read_source(matches[0], "reference"),
        origin="kernelbench",
        labels={"level": digits, "problem": str(_number(matches[0]))},
    )
