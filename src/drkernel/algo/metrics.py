"""Metrics of an evaluation: how many samples are correct, fast, or hacks, and how turns change
them.

Rates are over **all** samples: a missing turn (``None`` or NaN) is a failure, never a smaller
denominator. Each rate is the mean of a table ``[P, K]`` of 0 and 1; :mod:`drkernel.algo.intervals`
gives it an interval.

Shapes: P = problems, K = samples a problem, T = turns. A speedup of 0 means incorrect.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from drkernel.algo.arrays import Array, ArrayLike, Bools, Floats, as_floats, as_stored, kind_of


def _samples(values: ArrayLike, name: str) -> Floats:
    values_PKT = as_floats(values, name)
    if values_PKT.ndim == 1 and values_PKT.size == 0:
        values_PKT = values_PKT.reshape(0, 0, 0)
    if values_PKT.ndim != 3:
        raise ValueError(
            f"{name} must be three-dimensional [P, K, T], not {list(values_PKT.shape)}"
        )
    return np.nan_to_num(values_PKT, nan=0.0, posinf=np.inf, neginf=-np.inf)


def _at(values_PKT: Floats, turn: int | None, best_of: int | None) -> Floats:
    """[P, K]: one turn's values, or the best of the first ``best_of``; else the last turn."""
    turns = values_PKT.shape[2]
    if turn is not None and best_of is not None:
        raise ValueError("give turn or best_of, not both")
    if best_of is not None:
        if not 1 <= best_of <= turns:
            raise ValueError(f"best_of must be in [1, {turns}], not {best_of}")
        return np.asarray(values_PKT[:, :, :best_of].max(axis=2))
    if turns == 0:
        return np.zeros(values_PKT.shape[:2])
    chosen = turns - 1 if turn is None else turn
    if not 0 <= chosen < turns:
        raise ValueError(f"turn is 0-based and must be in [0, {turns - 1}], not {chosen}")
    return values_PKT[:, :, chosen]


def _mean(values_PK: Bools) -> float:
    return float(values_PK.mean()) if values_PK.size else math.nan


def _fast(speedups: ArrayLike, p: float, turn: int | None, best_of: int | None) -> Bools:
    if not p >= 0:
        raise ValueError(f"p must be at least 0, not {p}")
    values_PK = _at(_samples(speedups, "speedups"), turn, best_of)
    return np.asarray(values_PK > 0 if p == 0 else values_PK >= as_stored(p, speedups))


def fast_samples(
    speedups: ArrayLike, p: float, *, turn: int | None = None, best_of: int | None = None
) -> Array:
    """[P, K] bool: the sample is correct and at least ``p`` times as fast as the reference.

    The table behind :func:`fast_at_p`, for :func:`clustered_interval` and
    :func:`paired_difference`.

    >>> fast_samples([[[0.0, 1.3], [1.0, None]]], 1.2).tolist()
    [[True, False]]
    """
    return kind_of(speedups).exact(_fast(speedups, p, turn, best_of))


def fast_at_p(
    speedups: ArrayLike, p: float, *, turn: int | None = None, best_of: int | None = None
) -> float:
    """Fast@p: share of all P*K samples with speedup >= p; for p = 0, speedup > 0.

    Args:
        speedups: [P, K, T]; 0 = incorrect, ``None`` or NaN = missing = failure.
        p: threshold.
        turn: 0-based turn; the last one when neither ``turn`` nor ``best_of`` is given.
        best_of: judge each sample by the best of its first ``best_of`` turns.

    NaN when there is no sample at all.

    >>> speedups = [[[0.0, 1.3], [1.0, None]]]
    >>> fast_at_p(speedups, 1.2), fast_at_p(speedups, 1.0, best_of=2)
    (0.5, 1.0)
    """
    return _mean(_fast(speedups, p, turn, best_of))


def fast_ratio(
    speedups: ArrayLike,
    *,
    fast: float = 1.2,
    base: float = 1.0,
    turn: int | None = None,
    best_of: int | None = None,
) -> float:
    """Fast@fast / Fast@base: of the samples that keep up, the share that is clearly faster.

    Low while Fast@1 grows means lazy optimisation. NaN when Fast@base is 0.

    >>> fast_ratio([[[1.0], [1.3], [0.8], [0.0]]])
    0.5
    """
    above = fast_at_p(speedups, base, turn=turn, best_of=best_of)
    return fast_at_p(speedups, fast, turn=turn, best_of=best_of) / above if above > 0 else math.nan


def correct_rate(
    correct: ArrayLike, *, turn: int | None = None, best_of: int | None = None
) -> float:
    """Share of all samples that are correct at ``turn``, or at any of the first ``best_of`` turns.

    Reads no speedup: a correct candidate that was not timed counts. Missing turns count as
    failures.

    >>> correct_rate([[[0, 1], [1, 0]]]), correct_rate([[[0, 1], [1, 0]]], best_of=2)
    (0.5, 1.0)
    """
    return _mean(_at(_samples(correct, "correct"), turn, best_of) != 0)


def pass_at_k(n: ArrayLike, c: ArrayLike, k: ArrayLike) -> Array:
    """1 - C(n-c, k)/C(n, k): chance of a correct one among k of n samples, c being correct.

    Scalars give a float, arrays of one shape an array.

    Raises:
        ValueError: unless all are whole numbers, 0 <= c <= n and 1 <= k <= n.

    >>> pass_at_k(8, 3, 1), pass_at_k(8, 0, 4), pass_at_k(8, 6, 4)
    (0.375, 0.0, 1.0)
    """
    numbers = np.broadcast_arrays(*(as_floats(values, "n, c and k") for values in (n, c, k)))
    if not all(np.array_equal(values, np.floor(values)) for values in numbers):
        raise ValueError("pass_at_k needs whole numbers n, c and k")
    n_, c_, k_ = (np.asarray(values).astype(np.int64) for values in numbers)
    if np.any((c_ < 0) | (c_ > n_) | (k_ < 1) | (k_ > n_)):
        raise ValueError("pass_at_k needs 0 <= c <= n and 1 <= k <= n")
    triples = zip(n_.ravel().tolist(), c_.ravel().tolist(), k_.ravel().tolist(), strict=True)
    flat = [_one_pass_at_k(*triple) for triple in triples]
    return kind_of(n, c, k).floats(np.array(flat, dtype=np.float64).reshape(n_.shape))


def _one_pass_at_k(n: int, c: int, k: int) -> float:
    # exact integers: the product form loses digits, the factorial form overflows
    return 1.0 - math.comb(n - c, k) / math.comb(n, k)


def hack_ratio(outcomes: Iterable[object]) -> float:
    """Hacks / evaluated samples; ``infrastructure``, ``None`` and NaN were not evaluated.

    Outcomes are strings or enum members whose value is the string, nested to any depth. NaN when
    nothing was evaluated.

    >>> hack_ratio(["hack", "correct", "mismatch", "infrastructure", "crash"])
    0.25
    """
    names = [
        str(getattr(outcome, "value", outcome))
        for outcome in _flat(outcomes)
        if outcome is not None and outcome == outcome  # NaN is the one value unequal to itself
    ]
    evaluated = [name for name in names if name != "infrastructure"]
    return evaluated.count("hack") / len(evaluated) if evaluated else math.nan


def _flat(outcomes: Iterable[object]) -> Iterable[object]:
    for outcome in outcomes:
        if isinstance(outcome, (list, tuple, np.ndarray)):
            yield from _flat(outcome)
        else:
            yield outcome


TURN_STATES = ("failed", "correct", "fast")


@dataclass(frozen=True)
class TurnFlow:
    """Where the samples went between two turns."""

    counts: npt.NDArray[np.int64]
    """[3, 3] samples by (state before, state after), in the order of ``TURN_STATES``."""

    @property
    def improved(self) -> float:
        """Share of all samples that moved to a better state."""
        return self._share(np.triu(self.counts, 1))

    @property
    def regressed(self) -> float:
        """Share of all samples that moved to a worse state."""
        return self._share(np.tril(self.counts, -1))

    def _share(self, part: npt.NDArray[np.int64]) -> float:
        total = int(self.counts.sum())
        return float(part.sum()) / total if total else math.nan


def turn_flows(speedups: ArrayLike, *, fast: float = 1.2) -> list[TurnFlow]:
    """Improvement and regression between each turn and the next, T - 1 flows.

    A sample is "failed" (incorrect or missing), "correct" (speedup > 0), or "fast" (speedup >=
    ``fast``).

    >>> flow = turn_flows([[[0.0, 1.3], [1.0, 0.0]]])[0]
    >>> flow.counts.tolist(), flow.improved, flow.regressed
    ([[0, 0, 1], [1, 0, 0], [0, 0, 0]], 0.5, 0.5)
    """
    values_PKT = _samples(speedups, "speedups")
    states_PKT = (values_PKT > 0).astype(np.int64) + (values_PKT >= as_stored(fast, speedups))
    flows = []
    for turn in range(states_PKT.shape[2] - 1):
        moves = states_PKT[:, :, turn] * 3 + states_PKT[:, :, turn + 1]
        flows.append(
            TurnFlow(np.bincount(moves.ravel(), minlength=9).reshape(3, 3).astype(np.int64))
        )
    return flows
