"""Which trajectories are worth learning from, and why the others are not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from drkernel.collect.settings import SelectionSettings
from drkernel.types import Episode, Turn


@dataclass(frozen=True)
class Choice:
    """What was decided about one episode."""

    episode: Episode
    reason: str
    """Why it is left out; empty when it is kept."""

    @property
    def kept(self) -> bool:
        """Whether it becomes a row."""
        return not self.reason


def best_turn(episode: Episode) -> Turn | None:
    """The correct turn of highest speedup, the earliest of equals; None when none is correct.

    Where nothing was timed it is the turn of highest reward, the latest of equals: later turns
    were written knowing more.
    """
    correct = [turn for turn in episode.turns if turn.correct]
    if not correct:
        return None
    if any(turn.speedup is not None for turn in correct):
        return max(correct, key=lambda turn: (turn.speedup or 0.0, -turn.index))
    return max(correct, key=lambda turn: (turn.reward, turn.index))


def select(episodes: Sequence[Episode], settings: SelectionSettings, *, turns: int) -> list[Choice]:
    """A decision for every episode, in order. ``turns``: what a complete one has."""
    choices = [Choice(one, _reason(one, settings, turns)) for one in episodes]
    if settings.distinct:
        choices = _distinct(choices)
    if settings.per_task is not None:
        choices = _best_of_each_task(choices, settings.per_task)
    return choices


def _reason(episode: Episode, settings: SelectionSettings, turns: int) -> str:
    if settings.complete and not _is_complete(episode, turns):
        return "incomplete"
    if not any(turn.valid for turn in episode.turns):
        return "empty"
    if settings.hacks != "allow" and _is_hacked(episode, recovered=settings.hacks == "recovered"):
        return "hack"
    best = best_turn(episode)
    if best is None:
        return "never correct" if settings.best == "correct" or settings.last != "any" else ""
    return _reason_of_best(episode, best, settings)


def _reason_of_best(episode: Episode, best: Turn, settings: SelectionSettings) -> str:
    last = episode.turns[-1]
    if settings.last != "any" and not last.correct:
        return "last turn not correct"
    if settings.last == "best" and (last.speedup or 0.0) < (best.speedup or 0.0):
        return "last turn not the best"
    if settings.min_speedup is not None and (best.speedup or 0.0) < settings.min_speedup:
        return "too slow"
    if settings.min_coverage is not None and (best.coverage or 0.0) < settings.min_coverage:
        return "low coverage"
    if settings.improves and best.index == 0:
        return "does not improve"
    return ""


def _is_complete(episode: Episode, turns: int) -> bool:
    everything = len(episode.turns) == turns or episode.stopped == "solved"
    return everything and all(turn.valid for turn in episode.turns)


def _is_hacked(episode: Episode, *, recovered: bool) -> bool:
    hacked = [
        turn.index
        for turn in episode.turns
        if turn.result is not None and turn.result.outcome.value == "hack"
    ]
    if not hacked or not recovered:
        return bool(hacked)
    return not any(turn.correct and turn.index > hacked[-1] for turn in episode.turns)


def _distinct(choices: list[Choice]) -> list[Choice]:
    seen: set[tuple[str, str]] = set()
    out = []
    for choice in choices:
        best = best_turn(choice.episode)
        if choice.kept and best is not None:
            known = (choice.episode.task_hash, best.extraction.code or "")
            if known in seen:
                choice = Choice(choice.episode, "same code as another")
            seen.add(known)
        out.append(choice)
    return out


def _best_of_each_task(choices: list[Choice], count: int) -> list[Choice]:
    by_task: dict[str, list[Choice]] = {}
    for choice in choices:
        if choice.kept:
            by_task.setdefault(choice.episode.task, []).append(choice)
    chosen = {
        choice.episode.id
        for group in by_task.values()
        for choice in sorted(group, key=_rank, reverse=True)[:count]
    }
    return [
        Choice(one.episode, "others of its task are better")
        if one.kept and one.episode.id not in chosen
        else one
        for one in choices
    ]


def _rank(choice: Choice) -> tuple[float, float, int]:
    best = best_turn(choice.episode)
    if best is None:
        return (-1.0, 0.0, -choice.episode.sample)
    return (best.speedup or 0.0, best.reward, -choice.episode.sample)
