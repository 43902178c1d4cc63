"""Reward -> return -> advantage -> filter: which rows are trained, and with what weight.

Only wiring; every formula is in `drkernel.algo`.

Shapes: B = episodes, T = turns, R = rows, L = tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from drkernel.algo import (
    AdvantageResult,
    FilterDecision,
    MismatchReport,
    advantages,
    combine_filters,
    drop_degenerate_groups,
    mismatch_keep,
    mismatch_report,
    profiling_keep,
    returns_to_go,
    tau_schedule,
)
from drkernel.algo.arrays import Bools, Floats
from drkernel.train.settings import AlgorithmSettings
from drkernel.train.trajectories import Rollouts

_PRS_STREAM = 7
"""Keeps the draws of PRS apart from others of the same seed and step."""
_TAKE_SINGLETON = ("trloo", "rloo_trajectory")


@dataclass(frozen=True)
class Credit:
    """What every row is worth."""

    advantages: Floats
    """[R]; 0 where dropped."""
    keep: Bools
    """[R] survived every filter."""
    w: Floats
    """[R] geometric mean of trainer over sampler probabilities."""
    tau: float
    """Threshold of PRS at this step."""
    table: AdvantageResult
    """[B, T] tables: advantages, returns, what is trained, group sizes."""
    filters: FilterDecision
    """[B, T] who dropped what."""
    mismatch: MismatchReport
    """Keep rate by length, quantiles of w."""

    @property
    def nothing_left(self) -> bool:
        """No row survived: no optimizer step is taken."""
        return not bool(self.keep.any())


def credit(
    rollouts: Rollouts, logp_train: Floats, rule: AlgorithmSettings, *, seed: int, step: int
) -> Credit:
    """``logp_train``: [R, L] by the trainer, under the weights that sampled."""
    places = rollouts.places
    logp_rollout, mask = rollouts.logp_rollout(), rollouts.mask()
    tau = tau_schedule(step, end=rule.prs_tau, steps=rule.prs_warmup_steps)
    bounds: dict[str, Any] = {
        "low": rule.mrs_low,
        "high": rule.mrs_high,
        "veto": rule.mrs_veto,
        "level": rule.mrs_level,
        "trajectory": places[0],
    }
    agrees, w = mismatch_keep(logp_train, logp_rollout, mask, **bounds)
    keeps: dict[str, Bools] = {}
    if rule.mrs:
        keeps["mrs"] = _table(rollouts, agrees)
    if rule.prs:
        drawn = profiling_keep(
            rollouts.coverage[places],
            rollouts.correct[places],
            seed=[seed, step, _PRS_STREAM],
            tau=tau,
            softness=rule.prs_softness,
            unknown=rule.prs_unknown,
        )
        keeps["prs"] = _table(rollouts, drawn)
    if rule.drop_flat_groups != "off":
        keeps["flat"] = drop_degenerate_groups(
            returns_to_go(rollouts.rewards, rollouts.valid, rule.gamma),
            rollouts.group,
            rollouts.valid,
            on=rule.drop_flat_groups,
        )
    filters = combine_filters(keeps, rollouts.valid)
    table = advantages(
        rule.estimator,
        rollouts.rewards,
        rollouts.group,
        rollouts.valid,
        gamma=rule.gamma,
        keep=filters.keep,
        filter_order=rule.filter_order,
        **({"singleton": rule.singleton} if rule.estimator in _TAKE_SINGLETON else {}),
    )
    return Credit(
        advantages=table.advantages[places],
        keep=table.trained[places],
        w=w,
        tau=tau,
        table=table,
        filters=filters,
        mismatch=mismatch_report(logp_train, logp_rollout, mask, **bounds),
    )


def _table(rollouts: Rollouts, keep_R: Bools) -> Bools:
    """[B, T] with each row's verdict in its place."""
    keep_BT = np.zeros(rollouts.valid.shape, dtype=bool)
    keep_BT[rollouts.places] = keep_R
    return keep_BT
