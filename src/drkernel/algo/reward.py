"""Rewards of one turn from measured quantities.

C = the candidate is correct (a hack is not), speedup = T_reference / T_kernel, coverage = device
time of the candidate's own kernels / device time of all kernels. ``None`` and NaN mean "not
measured" and count 0.

All functions take scalars (and give a Python float), arrays of one shape, or a mix that broadcasts.
:mod:`drkernel.algo.reward_rules` composes them from evaluation results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from drkernel.algo.arrays import Array, ArrayLike, Bools, Floats, as_bools, as_floats, kind_of

TRANSFORMS: dict[str, Callable[[Floats], Floats]] = {
    "identity": lambda speedup: speedup,
    "log1p": np.log1p,
}


def _measured(values: ArrayLike, name: str) -> Floats:
    return np.nan_to_num(as_floats(values, name), nan=0.0, posinf=np.inf, neginf=-np.inf)


def _broadcast(*arrays: Floats | Bools) -> list[Any]:
    try:
        return [np.asarray(array) for array in np.broadcast_arrays(*arrays)]
    except ValueError as error:
        shapes = ", ".join(str(list(array.shape)) for array in arrays)
        raise ValueError(f"the inputs of a reward must share one shape, not {shapes}") from error


def turn_reward(
    correct: ArrayLike,
    speedup: ArrayLike,
    coverage: ArrayLike,
    *,
    cap: float = 3.0,
    use_coverage: bool = True,
    weights: Sequence[float] = (1.0, 1.0, 1.0),
) -> Array:
    """r = w0*C + w1*C*min(speedup, cap) + w2*C*coverage; 0 when incorrect.

    The paper's reward with its profiling term (PR); ``use_coverage=False`` is the reward without
    it, ``weights=(0.5, 0.5, 0.5)`` the released code. For the ``displaced`` credit of our recipes
    pass ``displaced_credit(displaced, speedup)`` as ``coverage``.

    Raises:
        ValueError: if the shapes do not broadcast or there are not three weights.

    >>> turn_reward(True, 10.0, 0.5)
    4.5
    >>> turn_reward([1, 1, 0], [0.5, None, 5.0], [0.25, 0.25, 0.9]).tolist()
    [1.75, 1.25, 0.0]
    """
    if len(weights) != 3:
        raise ValueError(
            f"weights are (correctness, speedup, coverage), three numbers, not {len(weights)}"
        )
    correct_, speedup_, coverage_ = _broadcast(
        as_bools(correct, "correct"), _measured(speedup, "speedup"), _measured(coverage, "coverage")
    )
    paid = weights[0] + weights[1] * np.minimum(speedup_, cap)
    if use_coverage:
        paid = paid + weights[2] * coverage_
    # np.where rather than a product: an unmeasured or infinite speedup of an incorrect candidate
    # pays exactly 0
    return kind_of(correct, speedup, coverage).floats(np.where(correct_, paid, 0.0))


def displaced_credit(displaced: ArrayLike, speedup: ArrayLike) -> Array:
    """displaced * min(1, speedup), in [0, 1]: credit for device time no longer spent.

    Time wasted in the candidate's own kernels raises coverage but not ``displaced``, and lowers the
    speedup: a padded kernel never earns more than the same kernel without the padding.

    >>> displaced_credit(0.8, 0.5), displaced_credit(0.8, 2.0)
    (0.4, 0.8)
    """
    displaced_, speedup_ = _broadcast(
        _measured(displaced, "displaced"), _measured(speedup, "speedup")
    )
    return kind_of(displaced, speedup).floats(displaced_ * np.minimum(speedup_, 1.0))


def gated_reward(
    compiled: ArrayLike,
    correct: ArrayLike,
    speedup: ArrayLike,
    *,
    r_compile: float = -1.0,
    r_incorrect: float = -0.5,
    transform: str = "identity",
    cap: float = 3.0,
    valid: ArrayLike = True,
) -> Array:
    """One rung a stage: r_compile, else r_incorrect, else f(min(speedup, cap)).

    r_compile <= r_incorrect <= 0 < f(speedup); f is ``identity`` or ``log1p``. ``valid=False`` (no
    code in the answer, or an answer that does not parse) pays r_compile. A correct candidate
    without a timing pays 0.

    Raises:
        ValueError: for penalties out of order, an unknown transform, or shapes that do not
            broadcast.

    >>> gated_reward([0, 1, 1], [0, 0, 1], [0.0, 0.0, 2.0]).tolist()
    [-1.0, -0.5, 2.0]
    """
    if not r_compile <= r_incorrect <= 0:
        raise ValueError(
            f"penalties must satisfy r_compile <= r_incorrect <= 0, not {r_compile}, {r_incorrect}"
        )
    if transform not in TRANSFORMS:
        raise ValueError(f"transform must be one of {sorted(TRANSFORMS)}, not {transform!r}")
    compiled_, valid_, correct_, speedup_ = _broadcast(
        as_bools(compiled, "compiled"),
        as_bools(valid, "valid"),
        as_bools(correct, "correct"),
        _measured(speedup, "speedup"),
    )
    earned = TRANSFORMS[transform](np.minimum(np.maximum(speedup_, 0.0), cap))
    rewards = np.where(compiled_ & valid_, np.where(correct_, earned, r_incorrect), r_compile)
    return kind_of(compiled, correct, speedup, valid).floats(rewards)
