"""Advantage estimators: how much better a turn did than its peers.

All of them read returns (or rewards) [B, T], a prompt label a trajectory and the valid turns, and
give [B, T] with 0 at invalid turns. Nothing at an invalid turn is ever read. ``docs/algorithms.md``
derives them.

Shapes: B = trajectories, T = turns, V = valid turns laid flat. N_t = members of a (group, turn).
"""

from __future__ import annotations

import numpy as np

from drkernel.algo.arrays import Array, ArrayLike, Bools, Floats, as_mask, as_table, kind_of
from drkernel.algo.groups import cells_of

SINGLETON_RULES = ("raw", "zero")


def _tables(values: ArrayLike, valid: ArrayLike, name: str) -> tuple[Floats, Bools]:
    values_BT = as_table(values, name)
    valid_BT = as_mask(valid, values_BT.shape)
    if np.isnan(values_BT[valid_BT]).any():
        raise ValueError(
            f"{name} holds NaN at a valid turn: mark the turn invalid, or give it a value"
        )
    return values_BT, valid_BT


def _leave_one_out(values_BT: Floats, valid_BT: Bools, group: ArrayLike, singleton: str) -> Floats:
    """N/(N-1) * (value - cell mean) = value - mean of the others; ``singleton`` is for N = 1."""
    if singleton not in SINGLETON_RULES:
        raise ValueError(f"singleton must be one of {SINGLETON_RULES}, not {singleton!r}")
    cells = cells_of(group, valid_BT)
    centred_V, sizes_V = cells.centred(values_BT)
    alone_V = values_BT[valid_BT] if singleton == "raw" else 0.0
    others_V = np.maximum(sizes_V - 1.0, 1.0)
    return cells.scatter(np.where(sizes_V > 1, centred_V * sizes_V / others_V, alone_V))


def trloo(
    returns: ArrayLike, group: ArrayLike, valid: ArrayLike, *, singleton: str = "raw"
) -> Array:
    """Turn-level REINFORCE leave-one-out, the paper's TRLOO.

    A_it = G_it - mean of G_jt over the *other* valid members j of the same (group, turn)
         = N_t/(N_t - 1) * (G_it - mean of the cell).

    The others are independent of the turn's own action, so the baseline adds no bias. For N_t = 1
    there are no others: ``singleton="raw"`` takes a baseline of 0 (A = G, unbiased); ``"zero"``
    takes A = 0, which drops that turn's gradient and is biased wherever N_t = 1 can occur.

    Args:
        returns: [B, T], from :func:`returns_to_go`.
        group: [B] prompt labels, anything hashable.
        valid: [B, T].
        singleton: "raw" or "zero".

    >>> trloo([[4.0], [1.0]], [0, 0], [[1], [1]]).tolist()
    [[3.0], [-3.0]]
    """
    returns_BT, valid_BT = _tables(returns, valid, "returns")
    return kind_of(returns).floats(_leave_one_out(returns_BT, valid_BT, group, singleton))


def grpo(
    returns: ArrayLike,
    group: ArrayLike,
    valid: ArrayLike,
    *,
    normalize: bool = False,
    eps: float = 1e-6,
) -> Array:
    """Group-relative advantage of turns: G - cell mean, optionally / (std with ddof 1 + eps).

    The mean includes the row itself, so the expected gradient is (1 - 1/N_t) of the true one (the
    paper's "self-inclusion"); dividing by the std also weighs prompts by how little they vary. N_t
    = 1 gives 0.

    >>> grpo([[4.0], [1.0]], [0, 0], [[1], [1]]).tolist()
    [[1.5], [-1.5]]
    """
    returns_BT, valid_BT = _tables(returns, valid, "returns")
    cells = cells_of(group, valid_BT)
    advantages_V, sizes_V = cells.centred(returns_BT)
    if normalize:
        std_V = np.sqrt(cells.squares(advantages_V) / np.maximum(sizes_V - 1.0, 1.0))
        advantages_V = advantages_V / (std_V + eps)
    return kind_of(returns).floats(cells.scatter(np.where(sizes_V > 1, advantages_V, 0.0)))


def rloo_trajectory(
    rewards: ArrayLike, group: ArrayLike, valid: ArrayLike, *, singleton: str = "raw"
) -> Array:
    """Leave-one-out of whole trajectories: one number for all valid turns of each.

    A_i = R_i - mean of R_j over the other trajectories of the prompt, R_i = sum of the rewards of
    i's valid turns. Unbiased too, but a turn is also credited with rewards from before it, which
    only adds variance. A trajectory without a valid turn is no member of its group.

    >>> rloo_trajectory([[1, 3.0], [2, 0.0]], [0, 0], [[1, 1], [1, 0]]).tolist()
    [[2.0, 2.0], [-2.0, 0.0]]
    """
    rewards_BT, valid_BT = _tables(rewards, valid, "rewards")
    totals_B1 = np.where(valid_BT, rewards_BT, 0.0).sum(axis=1, keepdims=True)
    alive_B1 = np.asarray(valid_BT.any(axis=1, keepdims=True))
    advantages_B1 = _leave_one_out(totals_B1, alive_B1, group, singleton)
    return kind_of(rewards).floats(np.where(valid_BT, advantages_B1, 0.0))


def reinforce(
    returns: ArrayLike,
    group: ArrayLike,
    valid: ArrayLike,
    *,
    whiten: bool = True,
    eps: float = 1e-6,
) -> Array:
    """REINFORCE: the returns themselves, by default whitened over all valid turns of the batch.

    A = (G - mean) / (std with ddof 1 + eps), mean and std over every valid turn. ``group`` is
    accepted so that all estimators are called alike; it is not read. One valid turn alone whitens
    to 0.

    >>> reinforce([[3.0, 1.0]], [0], [[1, 1]], whiten=False).tolist()
    [[3.0, 1.0]]
    """
    returns_BT, valid_BT = _tables(returns, valid, "returns")
    values_V = returns_BT[valid_BT]
    if whiten and values_V.size:
        values_V = values_V - values_V.mean()
        std = np.sqrt((values_V**2).sum() / max(values_V.size - 1, 1))
        values_V = values_V / (std + eps)
    table_BT = np.zeros_like(returns_BT)
    table_BT[valid_BT] = values_V
    return kind_of(returns).floats(table_BT)
