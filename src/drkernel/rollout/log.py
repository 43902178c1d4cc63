"""``episodes.jsonl``: every turn as it ended, whole or not at all; what a resumed run knows.

Two kinds of lines:

    {"kind": "turn", "head": {...}, "turn": {...}}      one turn, with whose it is
    {"kind": "end", "head": {...}, "stopped": "turns"}  the episode is over

A line is on disk before `EpisodeLog.turn` returns. A crash can cut the last line short; it is then
ignored and its turn played again. Of several lines for one turn the last holds: a turn that the gym
had failed and that was judged later. Not covered: task sources (``tasks.jsonl``).
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

from pydantic import ValidationError

from drkernel.types import Episode, Stopped, Turn
from kernelgym.errors import UsageError

log = logging.getLogger("drkernel.rollout")
OPEN_ENDS = ("policy_error", "infrastructure", "cancelled")
"""Episodes that stopped so are taken up again by a resumed run."""


@dataclass
class Stored:
    """What the log holds of one episode."""

    head: dict[str, Any]
    turns: dict[int, Turn] = field(default_factory=dict)
    stopped: Stopped | None = None
    """None: it was being played when the run ended."""
    ended_at: str = ""

    @property
    def finished(self) -> bool:
        """Whether nothing is left to do."""
        return self.stopped is not None and self.stopped not in OPEN_ENDS

    def episode(self) -> Episode:
        """The episode as it stands."""
        turns = [self.turns[index] for index in sorted(self.turns)]
        return Episode(**self.head, turns=tuple(turns), stopped=self.stopped or "cancelled")


def head_of(episode: Episode) -> dict[str, Any]:
    """Everything of an episode but its turns and its end."""
    return episode.model_dump(mode="json", exclude={"turns", "stopped"})


class EpisodeLog:
    """The open log of a run; use it as a context manager."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: TextIO | None = None

    def __enter__(self) -> EpisodeLog:
        self._file = self.path.open("a", encoding="utf-8")
        if self._file.tell() and not _ends_with_newline(self.path):
            self._file.write("\n")
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def turn(self, head: dict[str, Any], turn: Turn) -> None:
        """Append one turn; on disk when this returns."""
        self._write({"kind": "turn", "head": head, "turn": turn.model_dump(mode="json")})

    def end(self, head: dict[str, Any], stopped: Stopped) -> None:
        """Append the end of an episode; a lost one follows from the turns again."""
        at = datetime.now(UTC).isoformat(timespec="seconds")
        self._write({"kind": "end", "head": head, "stopped": stopped, "at": at}, sync=False)

    def _write(self, record: dict[str, Any], *, sync: bool = True) -> None:
        assert self._file is not None, "enter the log before writing to it"
        self._file.write(json.dumps(record, separators=(",", ":")) + "\n")
        self._file.flush()
        if sync:
            os.fsync(self._file.fileno())


def _ends_with_newline(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


def read_log(path: Path) -> dict[str, Stored]:
    """Episodes by id, in the order in which they were begun."""
    found: dict[str, Stored] = {}
    bad = 0
    for line in _lines(path):
        try:
            record = json.loads(line)
            _take(found, record)
        except (ValueError, KeyError, TypeError, ValidationError):
            bad += 1
    if bad:
        log.warning("%s: %d lines were cut short and are ignored", path, bad)
    return found


def _lines(path: Path) -> Iterator[str]:
    if not path.exists():
        return
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            if line.strip():
                yield line


def _take(found: dict[str, Stored], record: dict[str, Any]) -> None:
    head = record["head"]
    if record["kind"] == "turn":
        turn = Turn.model_validate(record["turn"])
        stored = found.setdefault(head["id"], Stored(head))
        stored.turns[turn.index] = turn
        stored.stopped = None  # an end that stood before it was not the last word
    elif record["kind"] == "end":
        stored = found.setdefault(head["id"], Stored(head))
        stored.stopped, stored.ended_at = record["stopped"], record.get("at", "")


def read_episodes(path: Path) -> list[Episode]:
    """Episodes of a run that are over, by id; raises `UsageError` where there is no log."""
    if not path.exists():
        raise UsageError(
            f"{path} does not exist: no run, or none that has begun to play",
            hint="the command that made it, with --resume",
        )
    stored = read_log(path)
    ended = [one.episode() for one in stored.values() if one.stopped is not None]
    return sorted(ended, key=lambda episode: (episode.task, episode.sample))
