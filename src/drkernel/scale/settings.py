"""The recipe of ``drkernel scale``."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter
from pydantic import Field

from drkernel.algo import turn_schedule
from drkernel.collect.policies import AnyPolicySettings
from drkernel.config import OPERATIONAL, Section
from drkernel.rollout.settings import EpisodeSettings, GymSettings
from drkernel.rollout.tasks import TaskSettings

Arm = Literal["vanilla", "top", "recent", "window", "parallel"]


class ChoosingSettings(Section):
    """Choosing a candidate without an oracle: candidates are compared with each other."""

    enabled: bool = False
    """Compare candidates; costs up to ``hubs`` evaluations a turn. Needs a GPU for Triton."""
    hubs: int = Field(default=2, ge=1)
    """Candidates that all others are compared with: the latest distinct ones."""
    arm: Arm = "top"
    """The arm whose candidates are chosen from."""


class ScaleSettings(Section):
    """Everything that ``drkernel scale`` can be told."""

    policy: AnyPolicySettings = AnyPolicySettings()
    """Who is scaled."""
    tasks: TaskSettings = TaskSettings()
    """On what."""
    episode: EpisodeSettings = EpisodeSettings()
    """How a turn is played; turns and context follow from the schedule and the arm."""
    samples: int = Field(default=1, ge=1)
    """Sequences of each task."""
    max_turns: int = Field(default=5, ge=2)
    """M: turns that one context holds."""
    iterations: int = Field(default=10, ge=1)
    """I: how often a context is filled; M + (I - 1)(M - w) turns in all."""
    w: int = Field(default=4, ge=1)
    """Earlier turns that are kept when a context is full."""
    arms: Annotated[tuple[Arm, ...], Parameter(consume_multiple=True, negative="")] = (
        "vanilla",
        "top",
    )
    """vanilla: the whole history, cut where it no longer fits. top: the w best turns. recent: the
    last w. window: the w consecutive ones of largest sum. parallel: as many first turns."""
    verify: bool = True
    """Judge each sequence's winner again, on fresh inputs in a fresh process: the figure of
    record."""
    choosing: ChoosingSettings = ChoosingSettings()
    """Choosing without an oracle."""
    thresholds: Annotated[tuple[float, ...], OPERATIONAL] = (1.0, 1.2, 1.5, 2.0)
    """The p of Fast@p."""
    concurrency: Annotated[int, OPERATIONAL] = Field(default=64, ge=1)
    """Episodes at once."""
    gym: GymSettings = GymSettings()
    """Where candidates are judged."""

    @property
    def turns(self) -> int:
        """Turns of a sequence."""
        return turn_schedule(self.max_turns, self.iterations, self.w)

    def problem(self) -> str:
        """As `Section.problem`."""
        if self.w >= self.max_turns and self.iterations > 1:
            return f"w must be below max_turns = {self.max_turns}, not {self.w}"
        if self.choosing.enabled and self.choosing.arm not in self.arms:
            return f"choosing.arm {self.choosing.arm} is not among the arms {', '.join(self.arms)}"
        if not self.arms:
            return "arms is empty: nothing would be played"
        return ""
