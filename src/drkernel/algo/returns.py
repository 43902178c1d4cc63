"""Returns: what a turn is worth, counting the turns that follow it.

Shapes: B = trajectories, T = turns.
"""

from __future__ import annotations

import numpy as np

from drkernel.algo.arrays import Array, ArrayLike, as_mask, as_table, kind_of


def returns_to_go(rewards: ArrayLike, valid: ArrayLike, gamma: float = 1.0) -> Array:
    """G[B, T] with G_t = r_t + gamma * G_{t+1}; r and G are 0 where the turn is invalid.

    The reward-to-go of the paper (gamma 1 there). Rewards of invalid turns are never read: they may
    be NaN or ``None``. An invalid turn ends the chain: a turn before it counts nothing from behind
    it. That only matters for infrastructure failures, whose earlier turns
    :func:`propagate_infrastructure` takes out.

    Raises:
        ValueError: if the shapes differ, gamma is outside [0, 1], or a valid turn has no reward.

    >>> returns_to_go([[0, 2, 3.5], [2, 2, 9]], [[1, 1, 1], [1, 1, 0]], gamma=0.5).tolist()
    [[1.875, 3.75, 3.5], [3.0, 2.0, 0.0]]
    """
    if not 0.0 <= gamma <= 1.0:
        raise ValueError(f"gamma must be in [0, 1], not {gamma}")
    table_BT = as_table(rewards, "rewards")
    valid_BT = as_mask(valid, table_BT.shape)
    rewards_BT = np.where(valid_BT, table_BT, 0.0)
    if np.isnan(rewards_BT).any():
        raise ValueError(
            "a valid turn has no reward (NaN or None): mark it invalid, or give it one"
        )
    returns_BT = np.zeros_like(rewards_BT)
    ahead_B = np.zeros(rewards_BT.shape[0])
    for turn in reversed(range(rewards_BT.shape[1])):
        ahead_B = np.where(valid_BT[:, turn], rewards_BT[:, turn] + gamma * ahead_B, 0.0)
        returns_BT[:, turn] = ahead_B
    return kind_of(rewards).floats(returns_BT)
