"""In which order Triton's interpreter runs the programs of a launch: in a new one each time.

A device promises no order. Triton's interpreter runs programs by number, so a kernel whose programs
read what those before them have written, without waiting for it, would be right here and wrong on a
GPU. Kernels that may wait for other programs (`kernelgym.trace.bodies.waits`) keep the order by
number: waiting for one that has not run yet would never end.

Not covered: programs that run at the same time; order in kernels with a ``while`` loop.
"""

from __future__ import annotations

import math
import random
from typing import Any

from kernelgym.trace.recorder import Recorder


def shuffle(recorder: Recorder) -> None:
    """From now on, launches shuffle their programs unless `Recorder.in_order` is set."""
    from triton.runtime.interpreter import InterpreterBuilder

    set_dim, set_idx = InterpreterBuilder.set_grid_dim, InterpreterBuilder.set_grid_idx
    turn = (0, 1)

    def set_grid_dim(self: Any, nx: int, ny: int, nz: int) -> None:
        nonlocal turn
        set_dim(self, nx, ny, nz)
        turn = (0, 1) if recorder.in_order else _drawn(nx * ny * nz)

    def set_grid_idx(self: Any, x: int, y: int, z: int) -> None:
        _, ny, nz = self.grid_dim
        place = at(((x * ny) + y) * nz + z, math.prod(self.grid_dim), turn)
        set_idx(self, place // (ny * nz), place // nz % ny, place % nz)

    InterpreterBuilder.set_grid_dim = set_grid_dim
    InterpreterBuilder.set_grid_idx = set_grid_idx


def at(number: int, count: int, turn: tuple[int, int]) -> int:
    """Which of ``count`` programs comes as the one of that number; ``turn``: start and step."""
    start, step = turn
    return (start + number * step) % count


def _drawn(count: int) -> tuple[int, int]:
    """A start, and a step that reaches every program."""
    draw = random.SystemRandom()
    step = draw.randint(1, max(1, count))
    while math.gcd(step, count) != 1:
        step = draw.randint(1, count)
    return draw.randrange(max(1, count)), step
