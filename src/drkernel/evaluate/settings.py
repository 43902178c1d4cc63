"""The recipe of ``drkernel eval``."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from drkernel.collect.policies import AnyPolicySettings
from drkernel.config import OPERATIONAL, Section
from drkernel.rollout.settings import EpisodeSettings, GymSettings
from drkernel.rollout.tasks import TaskSettings


class EvalSettings(Section):
    """Everything that ``drkernel eval`` can be told."""

    policy: AnyPolicySettings = AnyPolicySettings()
    """Who is measured."""
    tasks: TaskSettings = TaskSettings()
    """On what."""
    episode: EpisodeSettings = EpisodeSettings(turns=3)
    """How an episode is played."""
    samples: int = Field(default=8, ge=1)
    """Episodes of each task."""
    thresholds: Annotated[tuple[float, ...], OPERATIONAL] = (1.0, 1.2, 1.5, 2.0)
    """The p of Fast@p."""
    baselines: Annotated[tuple[Literal["eager", "torch_compile"], ...], OPERATIONAL] = ()
    """Further references: last and best candidates are timed again against each. Needs a GPU."""
    concurrency: Annotated[int, OPERATIONAL] = Field(default=64, ge=1)
    """Episodes at once."""
    gym: GymSettings = GymSettings()
    """Where candidates are judged."""
