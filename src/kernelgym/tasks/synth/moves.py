"""The registry of moves: ways to extend a program, each with its price in primitive operators.

A move is a function of a `Builder`. It either extends the program by exactly ``price`` operators or
leaves it as it was and returns False, because the stream does not suit it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kernelgym.tasks.synth.builder import Builder

Run = Callable[[Builder], bool]
ALL = ("rows", "sequence", "heads", "image", "signal", "volume", "nodes")
CONVOLVED = ("image", "signal", "volume")
LINEAR = ("rows", "sequence", "nodes")


@dataclass(frozen=True)
class Move:
    """One way to extend a program."""

    name: str
    layouts: tuple[str, ...]
    price: int
    weight: float
    group: str
    """Moves of one group do not follow each other directly, unless the group is empty."""
    run: Run


MOVES: list[Move] = []


def move(
    name: str, layouts: Iterable[str], *, price: int, weight: float = 1.0, group: str = ""
) -> Callable[[Run], Run]:
    """Register a move."""

    def register(run: Run) -> Run:
        MOVES.append(Move(name, tuple(layouts), price, weight, group, run))
        return run

    return register
