"""Episodes as tables and rows: what the algorithms and the learner take.

A turn is a row with its own prompt and the ids that were sampled. A turn that ended in the gym's or
the policy's failure makes the returns of the turns before it unknown: they are invalid, too.

Shapes: B = episodes, T = turns, R = rows (the valid turns, episode by episode), L = tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from drkernel.algo import propagate_infrastructure
from drkernel.algo.arrays import Bools, Floats
from drkernel.train.rows import Row, answer_row
from drkernel.train.unchecked import was_hack
from drkernel.types import Episode, Turn
from kernelgym.errors import UsageError

_FAULTS = ("infrastructure", "policy_error")


@dataclass(frozen=True)
class TurnRow:
    """A valid turn."""

    episode: int
    """Index b."""
    turn: int
    """Index t, 0-based."""
    row: Row
    """Prompt and answer."""
    logp_rollout: Floats
    """[L] log-probabilities when the answer's tokens were sampled."""


@dataclass(frozen=True)
class Rollouts:
    """The episodes of one step."""

    episodes: tuple[Episode, ...]
    """B, in the order of tasks and samples."""
    group: tuple[str, ...]
    """[B] the task of each."""
    played: Bools
    """[B, T] there is such a turn."""
    valid: Bools
    """[B, T] it counts in training and its return is known."""
    rewards: Floats
    """[B, T]; 0 where invalid."""
    correct: Bools
    """[B, T]."""
    speedup: Floats
    """[B, T]; NaN where it was not measured."""
    coverage: Floats
    """[B, T]; NaN where it was not measured."""
    displaced: Floats
    """[B, T]; NaN where it was not measured."""
    hacked: Bools
    """[B, T] the judge found a hack, paid or not."""
    rows: tuple[TurnRow, ...]
    """R, the valid turns."""

    @property
    def places(self) -> tuple[list[int], list[int]]:
        """(b, t) of every row, as an index into the tables."""
        return [row.episode for row in self.rows], [row.turn for row in self.rows]

    def logp_rollout(self) -> Floats:
        """[R, L] padded with 0."""
        return padded([row.logp_rollout for row in self.rows])

    def mask(self) -> Bools:
        """[R, L] true at the tokens of each answer."""
        return padded([np.ones(row.logp_rollout.size) for row in self.rows]) > 0


def padded(rows: Sequence[Floats]) -> Floats:
    """[R, L] with each row from the left and 0 behind it."""
    width = max((row.size for row in rows), default=0)
    table_RL = np.zeros((len(rows), width))
    for number, row in enumerate(rows):
        table_RL[number, : row.size] = row
    return table_RL


def rollouts_of(episodes: Sequence[Episode], *, turns: int, gamma: float) -> Rollouts:
    """Tables and rows of these episodes.

    Raises:
        UsageError: a valid turn has no token ids or log-probabilities.
    """
    shape = (len(episodes), turns)
    played = np.zeros(shape, dtype=bool)
    usable, failed = np.zeros(shape, dtype=bool), np.zeros(shape, dtype=bool)
    for b, episode in enumerate(episodes):
        for turn in episode.turns:
            place = (b, turn.index)
            played[place] = True
            usable[place], failed[place] = turn.valid, turn.status in _FAULTS
    valid = propagate_infrastructure(usable, failed, gamma=gamma)

    def table(read: Callable[[Turn], float | None]) -> Floats:
        values = np.full(shape, np.nan)
        for b, episode in enumerate(episodes):
            for turn in episode.turns:
                value = read(turn)
                values[b, turn.index] = np.nan if value is None else value
        return values

    return Rollouts(
        episodes=tuple(episodes),
        group=tuple(episode.task for episode in episodes),
        played=played,
        valid=valid,
        rewards=np.where(valid, np.nan_to_num(table(lambda turn: turn.reward)), 0.0),
        correct=table(lambda turn: float(turn.correct)) == 1,
        speedup=table(lambda turn: turn.speedup),
        coverage=table(lambda turn: turn.coverage),
        displaced=table(lambda turn: turn.displaced),
        hacked=table(lambda turn: float(turn.result is not None and was_hack(turn.result))) == 1,
        rows=tuple(
            _row(b, turn)
            for b, episode in enumerate(episodes)
            for turn in episode.turns
            if valid[b, turn.index]
        ),
    )


def _row(b: int, turn: Turn) -> TurnRow:
    said = turn.generation
    if not said.prompt_ids or said.token_ids is None or said.logprobs is None:
        raise UsageError(
            "the policy gives no token ids and log-probabilities, which training needs",
            hint="--policy.openai.token-ids require (a vLLM server), or --policy.name transformers",
        )
    row = answer_row(said.prompt_ids, said.token_ids)
    return TurnRow(b, turn.index, row, np.array(said.logprobs, dtype=np.float64))
