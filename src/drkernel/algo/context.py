"""What the next prompt remembers: the turns kept in context, and how many turns a schedule plays.

Sequential test-time scaling plays M turns, keeps the w best in context, and goes on from there.
"""

from __future__ import annotations

import numpy as np

from drkernel.algo.arrays import ArrayLike, Floats, as_floats

RULES = ("top", "recent", "window")
TIES = ("recent", "earliest")


def select_context(
    rewards: ArrayLike, w: int, *, tie: str = "recent", rule: str = "top"
) -> list[int]:
    """Indices of the turns to keep, in time order; all of them when there are no more than ``w``.

    Args:
        rewards: one number a turn; ``None`` or NaN (no reward) ranks below every number, and adds
            0 to the sum of a window.
        w: how many turns to keep.
        tie: among equal rewards prefer the "recent" or the "earliest" turn (rule "top" only).
        rule: "top" keeps the w turns of highest reward, the paper's text. Baselines: "recent" keeps
            the last w; "window" keeps the w *consecutive* turns with the largest sum, the earliest
            of equals: the released code, which can lose the best turn.

    >>> select_context([4, 0, 0, 0, 0, 4, 0, 0], 4)
    [0, 5, 6, 7]
    >>> select_context([2, 0, 3, 0, 2.5, 0, 2.6], 2, rule="window")
    [1, 2]
    """
    if rule not in RULES:
        raise ValueError(f"rule must be one of {RULES}, not {rule!r}")
    if tie not in TIES:
        raise ValueError(f"tie must be one of {TIES}, not {tie!r}")
    if w < 0:
        raise ValueError(f"w must be at least 0, not {w}")
    rewards_T = as_floats(rewards, "rewards")
    if rewards_T.ndim != 1:
        raise ValueError(f"rewards must be one number a turn [T], not {list(rewards_T.shape)}")
    turns = rewards_T.size
    if turns <= w:
        return list(range(turns))
    if rule == "recent":
        return list(range(turns - w, turns))
    if rule == "window":
        start = _best_window(np.nan_to_num(rewards_T, nan=0.0), w)
        return list(range(start, start + w))
    return _top(np.where(np.isnan(rewards_T), -np.inf, rewards_T), w, tie)


def _top(rewards_T: Floats, w: int, tie: str) -> list[int]:
    time_T = np.arange(rewards_T.size)
    # lexsort's last key is the primary one: reward first, then time in the preferred direction
    order_T = np.lexsort((-time_T if tie == "recent" else time_T, -rewards_T))
    return sorted(int(turn) for turn in order_T[:w])


def _best_window(rewards_T: Floats, w: int) -> int:
    if w == 0:
        return 0
    sums = np.lib.stride_tricks.sliding_window_view(rewards_T, w).sum(axis=1)
    return int(np.argmax(sums))


def turn_schedule(max_turns: int, iterations: int, w: int) -> int:
    """Turns played in all: M + (I - 1)*(M - w); later iterations start with w in context.

    A single iteration plays M turns whatever w is.

    >>> turn_schedule(5, 10, 4)
    14
    """
    return sum(iteration_turns(max_turns, iterations, w))


def iteration_turns(max_turns: int, iterations: int, w: int) -> list[int]:
    """New turns of each iteration: M in the first, M - w in the later ones.

    Raises:
        ValueError: if max_turns or iterations is below 1, w is below 0, or w is above max_turns
            with more than one iteration.

    >>> iteration_turns(5, 3, 4)
    [5, 1, 1]
    """
    if max_turns < 1 or iterations < 1:
        raise ValueError(
            f"max_turns and iterations must be at least 1, not {max_turns} and {iterations}"
        )
    if w < 0 or (iterations > 1 and w > max_turns):
        raise ValueError(f"w must be in [0, max_turns] = [0, {max_turns}], not {w}")
    return [max_turns] + [max_turns - w] * (iterations - 1)
