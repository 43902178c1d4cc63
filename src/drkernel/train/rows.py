"""A row: token ids, and which of them the loss is about.

In supervised training a row is a conversation, in reinforcement learning one turn: its own prompt
and the sampled ids, never re-tokenised. Imports no torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Row:
    """One independent text."""

    ids_L: Ids
    """Token ids."""
    trained_L: Flags
    """True where the token is a target. Never the first one: nothing predicts it."""

    def __post_init__(self) -> None:
        if self.ids_L.ndim != 1 or self.ids_L.shape != self.trained_L.shape:
            raise ValueError("ids_L and trained_L must be one-dimensional and of one length")
        if self.ids_L.size and self.trained_L[0]:
            raise ValueError("the first token of a row cannot be a target: nothing predicts it")

    @property
    def tokens(self) -> int:
        """Length of the row."""
        return int(self.ids_L.size)

    @property
    def targets(self) -> int:
        """Tokens that are trained on."""
        return int(self.trained_L.sum())

    def cut(self, longest: int) -> Row:
        """The first ``longest`` tokens."""
        return Row(self.ids_L[:longest], self.trained_L[:longest])


def answer_row(prompt_ids: Sequence[int], answer_ids: Sequence[int]) -> Row:
    """A row whose targets are the whole answer.

    >>> answer_row([5, 6], [7]).trained_L.tolist()
    [False, False, True]
    """
    ids_L = np.array([*prompt_ids, *answer_ids], dtype=np.int64)
    trained_L = np.arange(ids_L.size) >= len(prompt_ids)
    return Row(ids_L, trained_L)
