"""The recipe of ``drkernel optimize``."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from drkernel.collect.policies import AnyPolicySettings
from drkernel.config import OPERATIONAL, Section
from drkernel.rollout.settings import (
    BudgetSettings,
    ContextSettings,
    EpisodeSettings,
    GymSettings,
)


class OptimizeSettings(Section):
    """Everything that ``drkernel optimize`` can be told, besides the module."""

    policy: AnyPolicySettings = AnyPolicySettings()
    """Who writes."""
    episode: EpisodeSettings = EpisodeSettings(
        turns=8,
        variant="train",
        context=ContextSettings(rule="top", w=4, overflow="drop_oldest"),
        budget=BudgetSettings(),
    )
    """How it goes on: turns of each attempt, judging, context."""
    samples: int = Field(default=4, ge=1)
    """Independent attempts."""
    min_speedup: float = Field(default=1.05, gt=0)
    """What is not so much faster is not worth a change of code."""
    verify: int = Field(default=2, ge=1)
    """How many of the best candidates are judged again; the best of these verdicts wins."""
    concurrency: Annotated[int, OPERATIONAL] = Field(default=16, ge=1)
    """Attempts at once."""
    gym: GymSettings = GymSettings()
    """Where candidates are judged."""
