"""Random choices that come out alike on every machine and every version of Python.

Only ``Random(str)`` and ``random()`` are used, whose results Python promises to keep; ``choice``,
``shuffle`` and their kin have changed before.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

Item = TypeVar("Item")


class Draw:
    """A stream of choices, decided by its key alone."""

    def __init__(self, *key: object) -> None:
        self._random = random.Random(":".join(str(part) for part in key))

    def unit(self) -> float:
        """A number from 0 up to, but not, 1."""
        return self._random.random()

    def below(self, count: int) -> int:
        """A whole number from 0 to ``count - 1``."""
        return int(self._random.random() * count)

    def pick(self, items: Sequence[Item]) -> Item:
        """One of the items, all alike."""
        return items[self.below(len(items))]

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self._random.random() < probability

    def weighted(self, items: Sequence[tuple[Item, float]]) -> Item:
        """One of the items, by weight."""
        point = self._random.random() * sum(weight for _, weight in items)
        for item, weight in items:
            point -= weight
            if point < 0:
                return item
        return items[-1][0]
