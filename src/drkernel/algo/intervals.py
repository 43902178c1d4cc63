"""Intervals for evaluation numbers: how far a rate could be off, and whether two systems differ.

Samples of one problem resemble each other, so problems are resampled, not samples: K samples of P
problems hold nearer P than P*K independent facts.

Shapes: P = problems, K = samples a problem, S = bootstrap samples.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from drkernel.algo.arrays import ArrayLike, Floats, as_floats

_RESAMPLES_AT_ONCE = 4_000_000


class Interval(NamedTuple):
    """A two-sided interval; unpacks as ``low, high``."""

    low: float
    high: float


def _problem_means(values: ArrayLike, name: str) -> tuple[Floats, int]:
    """(means [P], K). NaN and ``None`` are failures and count 0."""
    values_PK = np.nan_to_num(as_floats(values, name), nan=0.0)
    if values_PK.ndim == 1 and values_PK.size == 0:
        values_PK = values_PK.reshape(0, 0)
    if values_PK.ndim != 2:
        raise ValueError(f"{name} must be two-dimensional [P, K], not {list(values_PK.shape)}")
    samples = values_PK.shape[1]
    return (values_PK.mean(axis=1) if samples else np.zeros(0)), samples


def _check(level: float, samples: int) -> None:
    if not 0 < level < 1:
        raise ValueError(f"level must be inside (0, 1), not {level}")
    if samples < 1:
        raise ValueError(f"samples must be at least 1, not {samples}")


def clustered_interval(
    values: ArrayLike, *, level: float = 0.95, samples: int = 10_000, seed: int = 0
) -> Interval:
    """Interval of the mean of ``values[P, K]``: a percentile bootstrap over problems.

    With K = 1 and values of only 0 and 1 there is nothing clustered, and Wilson's interval is used:
    it stays honest where every problem agrees and the bootstrap would collapse to a point. (nan,
    nan) without values.

    Args:
        values: [P, K], usually 0/1 from :func:`fast_samples`; NaN counts 0.
        level: confidence level.
        samples: bootstrap samples.
        seed: of the bootstrap; the same seed gives the same interval.

    >>> tuple(round(end, 3) for end in clustered_interval([[1], [0], [1], [1]]))
    (0.301, 0.954)
    """
    _check(level, samples)
    means_P, per_problem = _problem_means(values, "values")
    if means_P.size == 0:
        return Interval(math.nan, math.nan)
    if per_problem == 1 and np.isin(means_P, (0.0, 1.0)).all():
        return wilson_interval(int(means_P.sum()), means_P.size, level=level)
    return _percentiles(_bootstrap_means(means_P, samples, seed), level)


def wilson_interval(successes: int, trials: int, *, level: float = 0.95) -> Interval:
    """Wilson's score interval of a proportion of independent trials.

    >>> tuple(round(end, 4) for end in wilson_interval(0, 10))
    (0.0, 0.2775)
    """
    if not 0 <= successes <= trials:
        raise ValueError(f"successes must be in [0, trials] = [0, {trials}], not {successes}")
    _check(level, 1)
    if trials == 0:
        return Interval(math.nan, math.nan)
    z = NormalDist().inv_cdf((1 + level) / 2)
    share, spread = successes / trials, z * z / trials
    centre = (share + spread / 2) / (1 + spread)
    half = math.sqrt(share * (1 - share) * spread + spread * spread / 4) / (1 + spread)
    return Interval(max(0.0, centre - half), min(1.0, centre + half))


def _bootstrap_means(means_P: Floats, samples: int, seed: int) -> Floats:
    """Means of ``samples`` draws of P problems with replacement, [S]."""
    generator = np.random.default_rng(seed)
    block = max(1, _RESAMPLES_AT_ONCE // means_P.size)
    blocks = []
    for start in range(0, samples, block):
        size = (min(block, samples - start), means_P.size)
        blocks.append(means_P[generator.integers(0, means_P.size, size)].mean(axis=1))
    return np.concatenate(blocks)


def _percentiles(draws_S: Floats, level: float) -> Interval:
    low, high = np.quantile(draws_S, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(low), float(high))


@dataclass(frozen=True)
class PairedDifference:
    """Difference of two systems on the same problems."""

    difference: float
    """Mean of b - a."""
    interval: Interval
    """Bootstrap interval of the difference, resampling problems."""
    p_value: float
    """Two-sided sign-flip test: how often swapping a and b by problem does as much."""
    problems: int


def paired_difference(
    a: ArrayLike, b: ArrayLike, *, level: float = 0.95, samples: int = 10_000, seed: int = 0
) -> PairedDifference:
    """Compare ``b[P, K]`` with ``a[P, K']`` problem by problem; row p of both is the same problem.

    Pairing removes how hard the problems are, which is most of the variance of a rate over few
    problems.

    Raises:
        ValueError: if the two cover a different number of problems.

    >>> paired_difference([[0, 0], [1, 0]], [[1, 1], [1, 1]]).difference
    0.75
    """
    _check(level, samples)
    means_a, _ = _problem_means(a, "a")
    means_b, _ = _problem_means(b, "b")
    if means_a.size != means_b.size:
        raise ValueError(
            f"a and b must cover the same problems, not {means_a.size} and {means_b.size}"
        )
    gains_P = means_b - means_a
    if gains_P.size == 0:
        return PairedDifference(math.nan, Interval(math.nan, math.nan), math.nan, 0)
    observed = float(gains_P.mean())
    return PairedDifference(
        difference=observed,
        interval=_percentiles(_bootstrap_means(gains_P, samples, seed), level),
        p_value=_sign_flip_p_value(gains_P, observed, samples, seed),
        problems=gains_P.size,
    )


def _sign_flip_p_value(gains_P: Floats, observed: float, samples: int, seed: int) -> float:
    generator = np.random.default_rng(seed)
    block = max(1, _RESAMPLES_AT_ONCE // gains_P.size)
    extreme = 0
    for start in range(0, samples, block):
        size = (min(block, samples - start), gains_P.size)
        flipped = (gains_P * generator.choice((-1.0, 1.0), size)).mean(axis=1)
        # a hair of slack: the observed signs themselves must count as extreme in spite of rounding
        extreme += int((np.abs(flipped) >= abs(observed) - 1e-12).sum())
    return (extreme + 1) / (samples + 1)
