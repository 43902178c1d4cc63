"""Episodes as arrays [P, K, T]: problems, samples, turns; what was not played is missing.

A turn that was lost to context, policy or gym, and one that was never reached, is NaN, and counts
as a failure in every rate over all samples.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from drkernel.rollout.log import OPEN_ENDS
from drkernel.types import Episode, Turn
from kernelgym.errors import UsageError
from kernelgym.schema import Task

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Arrays:
    """One run, laid out."""

    tasks: tuple[str, ...]
    """P names."""
    episodes: tuple[tuple[Episode | None, ...], ...]
    """[P][K]; None where a sample was not played."""
    turns: int
    """T."""

    @property
    def samples(self) -> int:
        """K."""
        return max((len(row) for row in self.episodes), default=0)

    def table(self, read: Callable[[Turn], float | None], *, carry: bool = False) -> Floats:
        """[P, K, T] of a number of each turn; NaN where there is none.

        ``carry``: an episode that ended because it was fast enough keeps its last number, since
        its later turns were not needed rather than lost.
        """
        out = np.full((len(self.tasks), self.samples, self.turns), math.nan)
        for p, row in enumerate(self.episodes):
            for k, episode in enumerate(row):
                for turn in episode.turns if episode is not None else ():
                    if turn.valid and turn.index < self.turns:
                        value = read(turn)
                        out[p, k, turn.index] = math.nan if value is None else value
                if carry and episode is not None and episode.stopped == "solved":
                    played = len(episode.turns)
                    out[p, k, played:] = out[p, k, played - 1]
        return out

    @property
    def correct(self) -> Floats:
        """[P, K, T] of 0 and 1; NaN where a turn is missing."""
        return self.table(lambda turn: float(turn.correct), carry=True)

    @property
    def speedups(self) -> Floats:
        """[P, K, T]; 0 is incorrect; NaN is missing, or correct and not timed."""
        return self.table(lambda turn: turn.speedup if turn.correct else 0.0, carry=True)

    @property
    def rewards(self) -> Floats:
        """[P, K, T]."""
        return self.table(lambda turn: turn.reward, carry=True)

    @property
    def timed(self) -> bool:
        """Whether any speedup was measured."""
        return any(turn.speedup is not None for turn in self.all_turns())

    @property
    def unfinished(self) -> int:
        """Samples that were not played, or that a resumed run takes up again."""
        listed = [episode for row in self.episodes for episode in row]
        return sum(one is None or one.stopped in OPEN_ENDS for one in listed)

    def all_turns(self, index: int | None = None) -> Iterable[Turn]:
        """Every turn, or those of one index."""
        for row in self.episodes:
            for episode in row:
                for turn in episode.turns if episode is not None else ():
                    if index is None or turn.index == index:
                        yield turn

    def of(self, names: Iterable[str]) -> Arrays:
        """The same for some of the tasks."""
        wanted = set(names)
        kept = [p for p, name in enumerate(self.tasks) if name in wanted]
        return Arrays(
            tuple(self.tasks[p] for p in kept), tuple(self.episodes[p] for p in kept), self.turns
        )


def arrays_of(
    episodes: Sequence[Episode], tasks: Sequence[str], *, samples: int, turns: int
) -> Arrays:
    """Lay episodes out; tasks and samples that were not played stay empty."""
    rows: dict[str, list[Episode | None]] = {name: [None] * samples for name in tasks}
    for episode in episodes:
        if episode.task not in rows or episode.sample >= samples:
            raise UsageError(f"episode {episode.id} does not belong to this run")
        rows[episode.task][episode.sample] = episode
    return Arrays(tuple(tasks), tuple(tuple(rows[name]) for name in tasks), turns)


def levels_of(tasks: Mapping[str, Task]) -> dict[str, list[str]]:
    """Tasks by level, difficulty or category, whichever they are labelled with."""
    for label in ("level", "difficulty", "category"):
        values = {name: task.labels.get(label, "") for name, task in tasks.items()}
        if any(values.values()):
            groups: dict[str, list[str]] = {}
            for name in sorted(values, key=lambda one: values[one]):
                groups.setdefault(f"{label} {values[name] or 'none'}", []).append(name)
            return groups
    return {}
