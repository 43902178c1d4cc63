"""Rewards of whole evaluations: which measured fields a recipe pays for, by name.

A *result* is an object or a mapping with the fields ``outcome``, ``correct``, ``speedup``,
``coverage`` and ``displaced``, such as ``kernelgym.schema.EvalResult``. Two outcomes need care:
``infrastructure`` says nothing about the candidate and has no reward at all, and ``hack`` is never
correct, whatever the other fields say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from drkernel.algo.arrays import Bools, Floats
from drkernel.algo.reward import displaced_credit, gated_reward, turn_reward

CREDITS = ("coverage", "displaced", "none")
FORMS = ("sum", "gated")


@dataclass(frozen=True)
class RewardRule:
    """How an evaluation is paid. The defaults are the paper's."""

    form: str = "sum"
    """"sum" is :func:`turn_reward`, "gated" is :func:`gated_reward`."""
    credit: str = "coverage"
    """Third term of a sum: "coverage", "displaced" (times min(1, speedup)) or "none"."""
    cap: float = 3.0
    """Largest speedup that is paid for."""
    weights: tuple[float, float, float] = (1.0, 1.0, 1.0)
    """Weights of correctness, speedup and the credit."""
    r_compile: float = -1.0
    """Gated form: reward of a candidate that does not compile."""
    r_incorrect: float = -0.5
    """Gated form: reward of a candidate that compiles and is wrong."""
    transform: str = "identity"
    """Gated form: "identity" or "log1p" of the capped speedup."""

    def __post_init__(self) -> None:
        if self.form not in FORMS:
            raise ValueError(f"form must be one of {FORMS}, not {self.form!r}")
        if self.credit not in CREDITS:
            raise ValueError(f"credit must be one of {CREDITS}, not {self.credit!r}")

    def score(self, result: object) -> float | None:
        """The reward of one result, or ``None`` when the service failed.

        >>> padded = {"outcome": "correct", "correct": True, "speedup": 0.5}
        >>> padded |= {"coverage": 0.9, "displaced": 0.2}
        >>> RewardRule().score(padded), RewardRule(credit="displaced").score(padded)
        (2.4, 1.6)
        """
        outcome = outcome_name(result)
        if outcome == "infrastructure":
            return None
        correct = outcome == "correct" and bool(_field(result, "correct"))
        speedup = _field(result, "speedup")
        if self.form == "gated":
            return float(
                gated_reward(
                    outcome != "compile_error",
                    correct,
                    speedup,
                    r_compile=self.r_compile,
                    r_incorrect=self.r_incorrect,
                    transform=self.transform,
                    cap=self.cap,
                )
            )
        return float(
            turn_reward(
                correct,
                speedup,
                self._credit_of(result, speedup),
                cap=self.cap,
                use_coverage=self.credit != "none",
                weights=self.weights,
            )
        )

    def _credit_of(self, result: object, speedup: float | None) -> float | None:
        if self.credit == "displaced":
            return float(displaced_credit(_field(result, "displaced"), speedup))
        return _field(result, "coverage") if self.credit == "coverage" else None


REWARD_RULES: dict[str, RewardRule] = {
    "paper": RewardRule(),
    "paper_without_profiling": RewardRule(credit="none"),
    "released": RewardRule(weights=(0.5, 0.5, 0.5)),
    "displaced": RewardRule(credit="displaced"),
    "gated": RewardRule(form="gated"),
}
"""The rules a configuration can name."""


def reward_rule(rule: str | RewardRule) -> RewardRule:
    """The rule called ``rule``, or ``rule`` itself.

    Raises:
        ValueError: for a name that is not in ``REWARD_RULES``.
    """
    if isinstance(rule, RewardRule):
        return rule
    if rule not in REWARD_RULES:
        raise ValueError(f"reward rule must be one of {sorted(REWARD_RULES)}, not {rule!r}")
    return REWARD_RULES[rule]


def reward_from_result(result: object, rule: str | RewardRule = "paper") -> float | None:
    """The reward of one evaluation result under ``rule``; ``None`` for an infrastructure failure.

    >>> reward_from_result({"outcome": "hack", "correct": True, "speedup": 22.7, "coverage": 1.0})
    0.0
    >>> reward_from_result({"outcome": "infrastructure", "correct": None, "speedup": None}) is None
    True
    """
    return reward_rule(rule).score(result)


@dataclass(frozen=True)
class RewardTable:
    """Rewards of a batch of episodes, padded to the longest: [B, T] each."""

    rewards: Floats
    """0 where there is no reward."""
    valid: Bools
    """The turn was played and has a reward."""
    infrastructure: Bools
    """The turn was played and the service failed; pass it to :func:`propagate_infrastructure`."""


def reward_table(
    episodes: Sequence[Sequence[object]], rule: str | RewardRule = "paper"
) -> RewardTable:
    """Rewards of ``episodes[b][t]``, of any lengths; ``None`` is a turn without tokens.

    >>> wrong = {"outcome": "mismatch", "correct": False, "speedup": None, "coverage": None}
    >>> table = reward_table([[wrong, {"outcome": "infrastructure"}], [wrong]])
    >>> table.valid.tolist(), table.infrastructure.tolist()
    ([[True, False], [True, False]], [[False, True], [False, False]])
    """
    chosen, shape = (
        reward_rule(rule),
        (len(episodes), max((len(turns) for turns in episodes), default=0)),
    )
    rewards, valid, infrastructure = (
        np.zeros(shape),
        np.zeros(shape, dtype=bool),
        np.zeros(shape, dtype=bool),
    )
    for b, turns in enumerate(episodes):
        for t, result in enumerate(turns):
            if result is None:
                continue
            score = chosen.score(result)
            infrastructure[b, t], valid[b, t] = score is None, score is not None
            rewards[b, t] = score or 0.0
    return RewardTable(rewards, valid, infrastructure)


def outcome_name(result: object) -> str:
    """The outcome of a result as a plain string, whether stored as one or as an enum member."""
    outcome = _field(result, "outcome")
    return str(getattr(outcome, "value", outcome))


def _field(result: object, name: str) -> Any:
    return result.get(name) if isinstance(result, Mapping) else getattr(result, name)
