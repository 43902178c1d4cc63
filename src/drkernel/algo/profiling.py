"""Profiling-based rejection sampling (PRS): learn less from correct rows whose own kernels hardly
run.

A correct candidate that leaves the work to library kernels ("lazy optimisation") has a low coverage
PR = device time of its own kernels / device time of all kernels. PRS keeps it with a probability
that rises from 0 at tau to 1 at tau + softness.

Shapes: R = rows (one row a turn).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from drkernel.algo.arrays import Array, ArrayLike, Floats, as_bools, as_floats, as_stored, kind_of

UNKNOWN_RULES = ("keep", "drop")


def _probability(
    coverage: ArrayLike,
    correct: ArrayLike,
    *,
    tau: float = 0.3,
    softness: float = 0.1,
    keep_incorrect: bool = True,
    unknown: str = "keep",
) -> Floats:
    if unknown not in UNKNOWN_RULES:
        raise ValueError(f"unknown must be one of {UNKNOWN_RULES}, not {unknown!r}")
    if softness < 0:
        raise ValueError(f"softness must be at least 0, not {softness}")
    coverage_R, correct_R = as_floats(coverage, "coverage"), as_bools(correct, "correct")
    if coverage_R.shape != correct_R.shape and coverage_R.ndim and correct_R.ndim:
        shapes = f"{list(coverage_R.shape)} and {list(correct_R.shape)}"
        raise ValueError(f"coverage and correct must share one shape [R], not {shapes}")
    if softness == 0:
        kept_R = (coverage_R >= as_stored(tau, coverage)).astype(np.float64)
    else:
        kept_R = np.clip((coverage_R - tau) / softness, 0.0, 1.0)
    kept_R = np.where(np.isnan(coverage_R), float(unknown == "keep"), kept_R)
    return np.where(correct_R, kept_R, float(keep_incorrect))


def profiling_keep_probability(
    coverage: ArrayLike,
    correct: ArrayLike,
    *,
    tau: float = 0.3,
    softness: float = 0.1,
    keep_incorrect: bool = True,
    unknown: str = "keep",
) -> Array:
    """p[R] = clip((PR - tau)/softness, 0, 1) for correct rows: the paper's PRS.

    Args:
        coverage: [R] in [0, 1]; ``None`` or NaN where nothing was profiled.
        correct: [R], or one verdict for all rows.
        tau: coverage up to which a correct row is always dropped.
        softness: width of the ramp; 0 makes the rule hard, PR >= tau, with tau rounded like the
            coverages (a float32 0.7 reaches 0.7).
        keep_incorrect: rows that are not correct are kept (their PR means nothing), or all dropped.
        unknown: "keep" or "drop" correct rows without a coverage (a CPU run, a profiler that saw
            nothing).

    >>> profiling_keep_probability([0.2, 0.375, 0.8, None, 0.1], [1, 1, 1, 1, 0]).round(9).tolist()
    [0.0, 0.75, 1.0, 1.0, 1.0]
    """
    probability_R = _probability(
        coverage,
        correct,
        tau=tau,
        softness=softness,
        keep_incorrect=keep_incorrect,
        unknown=unknown,
    )
    return kind_of(coverage, correct).floats(probability_R)


def profiling_keep(coverage: ArrayLike, correct: ArrayLike, *, seed: Any, **rule: Any) -> Array:
    """keep[R] bool: one seeded Bernoulli draw a row with :func:`profiling_keep_probability`.

    The same seed and row order give the same rows for numpy and torch on any device.

    Args:
        coverage: as in :func:`profiling_keep_probability`.
        correct: as in :func:`profiling_keep_probability`.
        seed: anything ``numpy.random.default_rng`` takes.
        **rule: tau, softness, keep_incorrect, unknown.

    >>> profiling_keep([0.1, 0.9], [1, 1], seed=0).tolist()
    [False, True]
    """
    probability_R = _probability(coverage, correct, **rule)
    # draws are in [0, 1): probability 1 always keeps, probability 0 never does
    draws_R = np.random.default_rng(seed).random(probability_R.shape)
    return kind_of(coverage, correct).exact(np.asarray(draws_R < probability_R))


def tau_schedule(step: int, *, start: float = 0.0, end: float = 0.3, steps: int = 0) -> float:
    """tau at ``step``: linear from ``start`` to ``end`` over ``steps`` steps, then constant.

    Early policies rarely write a kernel that covers anything; a constant tau then drops nearly
    every correct row.

    >>> [round(tau_schedule(step, steps=100), 2) for step in (0, 50, 100, 200)]
    [0.0, 0.15, 0.3, 0.3]
    """
    if step < 0 or steps < 0:
        raise ValueError(f"step and steps must be at least 0, not {step} and {steps}")
    if step >= steps:
        return end
    return start + (end - start) * step / steps
