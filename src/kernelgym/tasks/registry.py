"""The built-in tasks: what there is, and how one becomes a `Task`.

Each is a file in ``builtin/``; its facts are read off the syntax tree, so that listing them imports
no torch. ``NAME:gpu`` is the same task with the sizes of its ``GPU_SIZES``.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from kernelgym.errors import UsageError
from kernelgym.schema import Task
from kernelgym.tasks.constants import constant_values, with_constants
from kernelgym.tasks.nearest import did_you_mean

_DIRECTORY = Path(__file__).parent / "builtin"
PREFIX = "builtin/"
GPU_SUFFIX = ":gpu"


@dataclass(frozen=True)
class BuiltinTask:
    """What ``kernelgym tasks list`` shows of a task."""

    name: str
    """``builtin/softmax``."""
    category: str
    summary: str
    sizes: dict[str, int]
    """Size constants, small enough for Triton's interpreter."""
    gpu_sizes: dict[str, int]
    """The same constants in the ``:gpu`` variant."""


@cache
def builtin_tasks() -> tuple[BuiltinTask, ...]:
    """Every built-in task, by name."""
    return tuple(_describe(path) for path in sorted(_DIRECTORY.glob("[a-z]*.py")))


def _source(name: str) -> str:
    return (_DIRECTORY / f"{name}.py").read_text(encoding="utf-8")


def _describe(path: Path) -> BuiltinTask:
    source = _source(path.stem)
    constants = constant_values(source)
    gpu_sizes = constants["GPU_SIZES"]
    return BuiltinTask(
        name=PREFIX + path.stem,
        category=constants["CATEGORY"],
        summary=(ast.get_docstring(ast.parse(source)) or "").partition("\n")[0],
        sizes={key: constants[key] for key in gpu_sizes},
        gpu_sizes=gpu_sizes,
    )


def builtin_task(name: str) -> Task:
    """The task ``builtin/NAME`` or ``builtin/NAME:gpu``; raises `UsageError` for another name."""
    base, colon, variant = name.partition(":")
    known = {task.name: task for task in builtin_tasks()}
    if base not in known or (colon and variant != GPU_SUFFIX[1:]):
        names = [*known, *(task + GPU_SUFFIX for task in known)]
        raise UsageError(
            f"no built-in task {name!r}{did_you_mean(name, names)}",
            hint="kernelgym tasks list",
        )
    source = _source(base.removeprefix(PREFIX))
    if variant:
        source = with_constants(source, known[base].gpu_sizes)
    labels = {"category": known[base].category, "size": variant or "small"}
    return Task(name=name, reference=source, origin="builtin", labels=labels)
