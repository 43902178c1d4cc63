"""Who gains from more turns: sequences by the state of their first turn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from drkernel.evaluate.arrays import Arrays

STATES = ("wrong", "correct, not fast", "fast")


@dataclass(frozen=True)
class Gain:
    """Sequences whose first turn was in one state."""

    state: str
    sequences: int
    correct: float | None
    """Share that has a correct candidate among all turns."""
    improved: float | None
    """Share whose best speedup is at least 5% above that of the first turn; None if untimed."""
    first_speedup: float | None
    """Median speedup of the first turn, over those that have one."""
    best_speedup: float | None
    """Median speedup of the best turn, 0 where none is correct; None if untimed."""


def gains_of(arrays: Arrays, *, fast: float = 1.2) -> list[Gain]:
    """One line a state that occurs; a missing first turn is ``wrong``."""
    correct = np.nan_to_num(arrays.correct, nan=0.0)
    speed = np.nan_to_num(arrays.speedups, nan=0.0)
    first = correct[:, :, 0] > 0
    fast_first = speed[:, :, 0] >= fast
    members = (~first, first & ~fast_first, first & fast_first)
    gains = []
    for state, chosen in zip(STATES, members, strict=True):
        count = int(chosen.sum())
        if not count:
            continue
        start, best = speed[:, :, 0][chosen], speed.max(axis=2)[chosen]
        gains.append(
            Gain(
                state,
                count,
                float((correct.max(axis=2)[chosen] > 0).mean()),
                float((best > 1.05 * start).mean()) if arrays.timed else None,
                _median(start[start > 0]) if arrays.timed else None,
                _median(best) if arrays.timed else None,
            )
        )
    return gains


def _median(values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> float | None:
    return float(np.median(values)) if values.size else None
