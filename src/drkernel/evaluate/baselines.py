"""Fast@p against further references, from candidates that were timed again.

Only last and best candidates were: the best by its speedup against the run's own reference, so
"best" here is that candidate's speedup, not the best against the further reference.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from drkernel.algo import clustered_interval, fast_samples
from drkernel.collect.selection import best_turn
from drkernel.evaluate.arrays import Arrays, Floats
from drkernel.evaluate.rejudge import Verdicts
from drkernel.report.rows import Row


def baseline_rows(
    arrays: Arrays, verdicts: Verdicts, baseline: str, thresholds: Sequence[float]
) -> list[Row]:
    """Rows called ``fast@1.2 vs torch_compile``; none where nothing was timed again."""
    if not any(purpose == f"baseline {baseline}" for _, _, purpose in verdicts):
        return []
    rows = []
    for where, best in ((f"turn {arrays.turns}", False), (f"best of {arrays.turns}", True)):
        speedups = _speedups(arrays, verdicts, baseline, best=best)
        for p in thresholds:
            table = fast_samples(speedups, p)
            low, high = clustered_interval(table)
            rows.append(
                Row(
                    metric=f"fast@{p:g} vs {baseline}",
                    group="all",
                    turn=where,
                    value=float(np.mean(table)),
                    low=low,
                    high=high,
                    problems=len(arrays.tasks),
                    samples=len(arrays.tasks) * arrays.samples,
                )
            )
    return rows


def _speedups(arrays: Arrays, verdicts: Verdicts, baseline: str, *, best: bool) -> Floats:
    """[P, K, 1]; 0 where there is no such candidate, or it failed the second time."""
    out = np.zeros((len(arrays.tasks), arrays.samples, 1))
    for p, row in enumerate(arrays.episodes):
        for k, episode in enumerate(row):
            if episode is None:
                continue
            last = episode.turns[-1] if len(episode.turns) == arrays.turns else None
            turn = best_turn(episode) if best else last
            if turn is None:
                continue
            again = verdicts.get((episode.id, turn.index, f"baseline {baseline}"))
            if again is not None and again.correct:
                out[p, k, 0] = again.speedup or 0.0
    return out
