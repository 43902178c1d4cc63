"""The reference as it is timed: eager, or compiled by ``torch.compile``.

Answers are always judged by the eager reference; this one only runs against the clock. It is
compiled once a task and mode, before the gate is asked for: compiling takes seconds of CPU time.

Not covered: references that Inductor cannot compile, or that it compiles anew for each call. The
first is a fault of the task under this baseline, the second shows as slow.
"""

from __future__ import annotations

from typing import cast

import torch

from kernelgym.errors import TaskError
from kernelgym.judge.inputs import draw_seed
from kernelgym.judge.prepare import PreparedTask
from kernelgym.schema import Mode

BACKEND = "inductor"
WARM_CALLS = 3
"""Calls in each mode: the first compiles, the next ones show whether it stays compiled."""
_KEPT = "compiled"


def prepare(task: PreparedTask, baseline: str, modes: tuple[Mode, ...]) -> None:
    """Compile what will be timed, where it is not yet; raises `TaskError` where that fails."""
    if baseline != "torch_compile":
        return
    kept: dict[Mode, torch.nn.Module] = task.kept.setdefault(_KEPT, {})
    for mode in modes:
        if mode not in kept:
            kept[mode] = _compiled(task, mode)


def timed_model(task: PreparedTask, mode: Mode) -> torch.nn.Module:
    """The model that is timed; what `prepare` made, or the eager one."""
    kept: dict[Mode, torch.nn.Module] = task.kept.get(_KEPT, {})
    found = kept.get(mode)
    return task.fresh_model() if found is None else found


def _compiled(task: PreparedTask, mode: Mode) -> torch.nn.Module:
    import torch._inductor.config as inductor

    inductor.compile_threads = 1  # a pool of processes would outlive its use
    model = cast(
        "torch.nn.Module", torch.compile(task.fresh_model(), backend=BACKEND, dynamic=False)
    )
    try:
        for _ in range(WARM_CALLS):
            given = task.reference.make_inputs(draw_seed())
            task.reference.call(model, mode, given, 0)
    except TaskError as error:
        raise TaskError(
            "reference_compile_error",
            f"torch.compile cannot run the reference in {mode} mode: {error}",
            traceback=error.traceback,
        ) from error
    return model
