"""The arms of a scaling run: the same first turns, then different memories.

The first M turns do not depend on the memory. They are played once and begin every sequential arm,
so that arms are compared on the same starts, and the turns are paid for once.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from drkernel.rollout.log import OPEN_ENDS, EpisodeLog, head_of, read_log
from drkernel.rollout.settings import ContextSettings, EpisodeSettings
from drkernel.scale.settings import Arm, ScaleSettings
from drkernel.types import Episode


def start_settings(settings: ScaleSettings) -> EpisodeSettings:
    """How the common first turns are played."""
    return settings.episode.model_copy(
        update={
            "turns": min(settings.max_turns, settings.turns),
            "context": ContextSettings(rule="all", overflow="drop_oldest"),
        }
    )


def arm_settings(settings: ScaleSettings, arm: Arm) -> EpisodeSettings:
    """How one arm is played."""
    if arm == "parallel":
        return settings.episode.model_copy(update={"turns": 1})
    context = ContextSettings(rule="all", overflow="drop_oldest")
    if arm != "vanilla":
        context = ContextSettings(
            rule=arm, w=settings.w, max_turns=settings.max_turns, overflow="drop_oldest"
        )
    return settings.episode.model_copy(update={"turns": settings.turns, "context": context})


def samples_of(settings: ScaleSettings, arm: Arm) -> int:
    """Episodes of each task: a parallel one has as many samples as a sequence has turns."""
    return settings.samples * (settings.turns if arm == "parallel" else 1)


def log_of(path: Path, arm: str) -> Path:
    """Where an arm's episodes are kept."""
    return path / "arms" / arm / "episodes.jsonl"


def begin_with(log_path: Path, starts: Sequence[Episode]) -> None:
    """Write the common first turns into an arm's log, where they are not there yet."""
    log_path.parent.mkdir(parents=True, exist_ok=True)
    known = read_log(log_path)
    with EpisodeLog(log_path) as log:
        for episode in starts:
            stored = known.get(episode.id)
            if stored is not None and stored.stopped is not None:
                continue
            there = stored.turns if stored is not None else {}
            for turn in episode.turns:
                # A failed turn is not handed on: the arm plays it itself.
                if turn.valid and turn.index not in there:
                    log.turn(head_of(episode), turn)


def grouped(parallel: Sequence[Episode], size: int) -> list[Episode]:
    """Independent samples laid out as sequences of ``size`` turns, for the same tables.

    Sample s of a task becomes turn s modulo ``size`` of sequence s // size; a sample without a
    turn is a missing one.
    """
    sequences: dict[tuple[str, int], list[Episode]] = {}
    for episode in sorted(parallel, key=lambda one: (one.task, one.sample)):
        sequences.setdefault((episode.task, episode.sample // size), []).append(episode)
    return [
        group[0].model_copy(
            update={
                "id": f"{task}#{number}",
                "sample": number,
                "stopped": next(
                    (one.stopped for one in group if one.stopped in OPEN_ENDS), group[0].stopped
                ),
                "turns": tuple(
                    episode.turns[0].model_copy(update={"index": episode.sample % size})
                    for episode in group
                    if episode.turns
                ),
            }
        )
        for (task, number), group in sequences.items()
    ]
