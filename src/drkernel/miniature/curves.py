"""One metric by step, over the seeds of an arm.

Shapes: S = seeds, N = steps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from drkernel.miniature.runs import Trained

Floats = npt.NDArray[np.float64]
WINDOW = 5
"""Steps of the moving mean that figures show of noisy curves."""
_FEWEST = 6
"""Steps from which a trend can be told."""
_Z = 1.96


@dataclass(frozen=True)
class Curve:
    """A metric of an arm."""

    steps_N: tuple[int, ...]
    """Steps that at least one seed has."""
    values_SN: Floats
    """NaN where a seed has none."""

    @property
    def is_known(self) -> bool:
        """Whether anything was measured."""
        return bool(np.isfinite(self.values_SN).any())

    def mean_N(self) -> Floats:
        """Mean over the seeds; NaN where none has a value."""
        known = np.isfinite(self.values_SN)
        total = np.where(known, self.values_SN, 0.0).sum(axis=0)
        count = known.sum(axis=0)
        return np.where(count > 0, total / np.maximum(count, 1), np.nan)

    def band_N(self) -> tuple[Floats, Floats]:
        """Lowest and highest seed."""
        low = np.where(np.isfinite(self.values_SN), self.values_SN, np.inf).min(axis=0)
        high = np.where(np.isfinite(self.values_SN), self.values_SN, -np.inf).max(axis=0)
        known = np.isfinite(low)
        return np.where(known, low, np.nan), np.where(known, high, np.nan)

    def smooth(self, window: int = WINDOW) -> Curve:
        """Each seed's moving mean over ``window`` steps up to and with each."""
        rows = [_moving_mean(row, window) for row in self.values_SN]
        return Curve(self.steps_N, np.array(rows).reshape(self.values_SN.shape))


def _moving_mean(row: Floats, window: int) -> Floats:
    found = np.full(row.shape, np.nan)
    for place in range(row.size):
        part = row[max(0, place - window + 1) : place + 1]
        part = part[np.isfinite(part)]
        if part.size and math.isfinite(row[place]):
            found[place] = part.mean()
    return found


def curve_of(runs: Sequence[Trained], metric: str) -> Curve:
    """The metric of some runs; step 0, where nothing is trained yet, counts where it has one."""
    by_seed = [
        {int(line["step"]): float(line[metric]) for line in run.lines if _has(line.get(metric))}
        for run in runs
    ]
    steps = sorted(set().union(*by_seed)) if by_seed else []
    values = np.full((len(by_seed), len(steps)), np.nan)
    for row, found in enumerate(by_seed):
        for place, step in enumerate(steps):
            values[row, place] = found.get(step, math.nan)
    return Curve(tuple(steps), values)


def _has(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def late(curve: Curve, share: float = 1 / 3) -> dict[int, float]:
    """Mean over the seeds at each of the last steps (two at the least), step to value."""
    means = curve.mean_N()
    known = [(s, float(v)) for s, v in zip(curve.steps_N, means, strict=True) if np.isfinite(v)]
    count = min(len(known), max(2, round(len(known) * share)))
    return dict(known[len(known) - count :])


def trend(curve: Curve, share: float = 1 / 2) -> str:
    """``rising``, ``falling`` or ``level`` over the last half, by least squares; 95%.

    Steps are taken as independent. ``too short`` where there are too few.
    """
    found = late(curve, share)
    if len(found) < _FEWEST:
        return "too short"
    steps, values = np.array(list(found), dtype=float), np.array(list(found.values()))
    centred = steps - steps.mean()
    slope = float((centred * values).sum() / (centred**2).sum())
    rest = values - values.mean() - slope * centred
    error = math.sqrt(float((rest**2).sum()) / (len(found) - 2) / float((centred**2).sum()))
    if abs(slope) <= _Z * error or slope == 0:
        return "level"
    return "rising" if slope > 0 else "falling"
