"""Algorithms of multi-turn kernel generation: rewards, advantages, filters, losses, metrics.

Pure functions over numpy arrays or torch tensors (see :mod:`drkernel.algo.arrays` for what comes
back), usable from any trainer. Importing this package does not import torch. ``docs/algorithms.md``
derives what is computed here, and :mod:`drkernel.algo.enumeration` proves it on small policies.
"""

from drkernel.algo.advantage import grpo, reinforce, rloo_trajectory, trloo
from drkernel.algo.context import iteration_turns, select_context, turn_schedule
from drkernel.algo.estimators import (
    ESTIMATORS,
    AdvantageResult,
    Estimator,
    advantages,
    get_estimator,
    register_estimator,
)
from drkernel.algo.filters import FilterDecision, combine_filters
from drkernel.algo.groups import (
    GroupStatistics,
    drop_degenerate_groups,
    group_sizes,
    group_statistics,
    propagate_infrastructure,
)
from drkernel.algo.intervals import (
    Interval,
    PairedDifference,
    clustered_interval,
    paired_difference,
    wilson_interval,
)
from drkernel.algo.loss import policy_loss, reinforce_loss
from drkernel.algo.metrics import (
    TURN_STATES,
    TurnFlow,
    correct_rate,
    fast_at_p,
    fast_ratio,
    fast_samples,
    hack_ratio,
    pass_at_k,
    turn_flows,
)
from drkernel.algo.mismatch import MismatchReport, mismatch_keep, mismatch_report
from drkernel.algo.profiling import profiling_keep, profiling_keep_probability, tau_schedule
from drkernel.algo.returns import returns_to_go
from drkernel.algo.reward import displaced_credit, gated_reward, turn_reward
from drkernel.algo.reward_rules import (
    REWARD_RULES,
    RewardRule,
    RewardTable,
    reward_from_result,
    reward_rule,
    reward_table,
)
from drkernel.algo.token_batch import planned_denominator

__all__ = [
    "ESTIMATORS",
    "REWARD_RULES",
    "TURN_STATES",
    "AdvantageResult",
    "Estimator",
    "FilterDecision",
    "GroupStatistics",
    "Interval",
    "MismatchReport",
    "PairedDifference",
    "RewardRule",
    "RewardTable",
    "TurnFlow",
    "advantages",
    "clustered_interval",
    "combine_filters",
    "correct_rate",
    "displaced_credit",
    "drop_degenerate_groups",
    "fast_at_p",
    "fast_ratio",
    "fast_samples",
    "gated_reward",
    "get_estimator",
    "group_sizes",
    "group_statistics",
    "grpo",
    "hack_ratio",
    "iteration_turns",
    "mismatch_keep",
    "mismatch_report",
    "paired_difference",
    "pass_at_k",
    "planned_denominator",
    "policy_loss",
    "profiling_keep",
    "profiling_keep_probability",
    "propagate_infrastructure",
    "register_estimator",
    "reinforce",
    "reinforce_loss",
    "returns_to_go",
    "reward_from_result",
    "reward_rule",
    "reward_table",
    "rloo_trajectory",
    "select_context",
    "tau_schedule",
    "trloo",
    "turn_flows",
    "turn_reward",
    "turn_schedule",
    "wilson_interval",
]
