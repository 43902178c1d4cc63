"""The estimators by name, as a configuration has them, and the order of filters and baselines.

Shapes: B = trajectories, T = turns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from drkernel.algo.advantage import grpo, reinforce, rloo_trajectory, trloo
from drkernel.algo.arrays import Array, ArrayLike, Bools, Floats, as_mask, as_table, kind_of
from drkernel.algo.groups import GroupStatistics, group_statistics
from drkernel.algo.returns import returns_to_go

FILTER_ORDERS = ("after", "before")


@dataclass(frozen=True)
class Estimator:
    """A named advantage estimator: ``function(values[B, T], group[B], valid[B, T], **options) ->
    [B, T]``."""

    name: str
    function: Callable[..., Array]
    reads: str
    """What ``values`` are: "returns" (to go, discounted) or "rewards" (of single turns)."""


ESTIMATORS: dict[str, Estimator] = {}


def register_estimator(
    name: str, function: Callable[..., Array], *, reads: str = "returns"
) -> Estimator:
    """Make ``function`` available to :func:`advantages` as ``name``.

    Raises:
        ValueError: if the name is taken, or ``reads`` is neither "returns" nor "rewards".
    """
    if name in ESTIMATORS:
        raise ValueError(f"an estimator called {name!r} is registered already")
    if reads not in ("returns", "rewards"):
        raise ValueError(f"reads must be 'returns' or 'rewards', not {reads!r}")
    ESTIMATORS[name] = Estimator(name, function, reads)
    return ESTIMATORS[name]


def get_estimator(name: str) -> Estimator:
    """The estimator called ``name``; ValueError names the known ones otherwise."""
    if name not in ESTIMATORS:
        raise ValueError(f"estimator must be one of {sorted(ESTIMATORS)}, not {name!r}")
    return ESTIMATORS[name]


def _trloo_zero(returns: ArrayLike, group: ArrayLike, valid: ArrayLike) -> Array:
    return trloo(returns, group, valid, singleton="zero")


def _grpo_normalized(
    returns: ArrayLike, group: ArrayLike, valid: ArrayLike, *, eps: float = 1e-6
) -> Array:
    return grpo(returns, group, valid, normalize=True, eps=eps)


register_estimator("trloo", trloo)
register_estimator("trloo_zero", _trloo_zero)
register_estimator("grpo", grpo)
register_estimator("grpo_normalized", _grpo_normalized)
register_estimator("rloo_trajectory", rloo_trajectory, reads="rewards")
register_estimator("reinforce", reinforce)


@dataclass(frozen=True)
class AdvantageResult:
    """Advantages with what has to be logged beside them."""

    advantages: Array
    """[B, T]; 0 where the turn is invalid or was dropped."""
    returns: Array
    """[B, T] returns to go, over all valid turns whatever was dropped."""
    trained: Array
    """[B, T] bool: valid and kept, the turns whose loss counts."""
    statistics: GroupStatistics
    """Sizes of the groups the baselines were computed from."""

    @property
    def nothing_trained(self) -> bool:
        """No turn survived: the trainer takes no optimizer step."""
        return not bool(self.trained.any())


def advantages(
    estimator: str,
    rewards: ArrayLike,
    group: ArrayLike,
    valid: ArrayLike,
    *,
    gamma: float = 1.0,
    keep: ArrayLike = None,
    filter_order: str = "after",
    **options: Any,
) -> AdvantageResult:
    """Rewards -> returns -> advantages -> filters, in the order the trainer uses them.

    Args:
        estimator: a name in ``ESTIMATORS``.
        rewards: [B, T] per-turn rewards.
        group: [B] prompt labels.
        valid: [B, T]; infrastructure already taken out by :func:`propagate_infrastructure`.
        gamma: discount of :func:`returns_to_go`.
        keep: [B, T] verdict of the filters, or ``None`` for no filter.
        filter_order: "after" (the default, as in the paper's released code) compares each turn with
            all valid turns of its group and then zeroes the dropped ones; "before" takes the
            dropped ones out of the groups. Either way a dropped turn's reward stays in the returns
            of the turns before it: it was earned.
        **options: passed to the estimator, e.g. ``singleton="zero"``.

    >>> rewards, valid, keep = [[4.0], [1.0], [1.0]], [[1], [1], [1]], [[1], [1], [0]]
    >>> result = advantages("trloo", rewards, [0, 0, 0], valid, keep=keep)
    >>> result.advantages.tolist(), result.statistics.histogram
    ([[3.0], [-1.5], [0.0]], ({3: 1},))
    """
    chosen = get_estimator(estimator)
    if filter_order not in FILTER_ORDERS:
        raise ValueError(f"filter_order must be one of {FILTER_ORDERS}, not {filter_order!r}")
    rewards_BT = as_table(rewards, "rewards")
    valid_BT = as_mask(valid, rewards_BT.shape)
    trained_BT = valid_BT if keep is None else valid_BT & as_mask(keep, rewards_BT.shape, "keep")
    members_BT = trained_BT if filter_order == "before" else valid_BT
    returns_BT = returns_to_go(rewards_BT, valid_BT, gamma)
    values_BT = returns_BT
    if chosen.reads == "rewards":
        values_BT = _moved_to_members(np.where(valid_BT, rewards_BT, 0.0), members_BT)
    advantages_BT = np.where(
        trained_BT, chosen.function(values_BT, group, members_BT, **options), 0.0
    )
    kind = kind_of(rewards)
    return AdvantageResult(
        advantages=kind.floats(advantages_BT),
        returns=kind.floats(returns_BT),
        trained=kind.exact(trained_BT),
        statistics=group_statistics(group, members_BT),
    )


def _moved_to_members(rewards_BT: Floats, members_BT: Bools) -> Floats:
    """Rewards of turns outside the groups, moved to the first member: the total stays whole."""
    moved_BT = np.where(members_BT, rewards_BT, 0.0)
    if moved_BT.size:
        first_B = np.argmax(members_BT, axis=1)
        moved_BT[np.arange(first_B.size), first_B] += (rewards_BT - moved_BT).sum(axis=1)
    return moved_BT
