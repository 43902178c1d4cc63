"""The recipe of ``drkernel collect``."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from drkernel.collect.policies import AnyPolicySettings
from drkernel.config import OPERATIONAL, Section
from drkernel.rollout.settings import EpisodeSettings, GymSettings
from drkernel.rollout.tasks import TaskSettings


class SelectionSettings(Section):
    """Which trajectories become rows. Changing it plays nothing again."""

    complete: bool = True
    """Every turn was played; nothing was lost to context, policy or gym."""
    best: Literal["correct", "any"] = "correct"
    """correct: some turn must be."""
    last: Literal["any", "correct", "best"] = "any"
    """What the last turn must be: correct, or as good as the best one."""
    hacks: Literal["none", "recovered", "allow"] = "none"
    """Rejected turns: not at all, only with a correct one after them, or never mind."""
    min_speedup: float | None = Field(default=None, gt=0)
    """The best turn is at least so much faster; None also takes what was not timed."""
    min_coverage: float | None = Field(default=None, ge=0, le=1)
    """The best turn's own kernels take at least this share of the device time."""
    improves: bool = False
    """The best turn is not the first."""
    per_task: int | None = Field(default=None, ge=1)
    """At most so many of one task, the best ones; None takes all."""
    distinct: bool = True
    """Of trajectories of one task whose best code is the same, the first."""


class CollectSettings(Section):
    """Everything that ``drkernel collect`` can be told."""

    policy: AnyPolicySettings = AnyPolicySettings(name="teacher")
    """Who writes."""
    tasks: TaskSettings = TaskSettings(source=("synth:1:50:1..3",), scale="lint")
    """What is to be written."""
    episode: EpisodeSettings = EpisodeSettings(turns=5, variant="distill")
    """How an episode is played."""
    samples: int = Field(default=1, ge=1)
    """Trajectories of each task."""
    concurrency: Annotated[int, OPERATIONAL] = Field(default=64, ge=1)
    """Episodes at once."""
    select: Annotated[SelectionSettings, OPERATIONAL] = SelectionSettings()
    """Which trajectories become rows."""
    gym: GymSettings = GymSettings()
    """Where candidates are judged."""
