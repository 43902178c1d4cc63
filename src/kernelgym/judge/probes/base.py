"""The three kinds of probes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from kernelgym.judge.correctness import Correctness
from kernelgym.schema import Mode


class Probe(Protocol):
    """Anything that the tuple may hold."""

    @property
    def name(self) -> str:
        """By which findings, documents and tests call it."""
        ...


@dataclass(frozen=True)
class Safeguard:
    """Something that every trial does; it is on when it is in the tuple."""

    name: str


@runtime_checkable
class ReplayProbe(Probe, Protocol):
    """Further calls in a mode, checked like trials; a wrong answer becomes a failed trial."""

    def ask(self, correctness: Correctness, mode: Mode) -> None:
        """Make them."""
        ...


@runtime_checkable
class LastProbe(Probe, Protocol):
    """Calls after everything else, in a process of which nothing is wanted any more."""

    @property
    def turns_off(self) -> bool:
        """Whether it needs a backend whose kernels can be turned off."""
        ...

    def ask_last(self, correctness: Correctness, modes: tuple[Mode, ...]) -> None:
        """Make them; what they find goes into the dossier."""
        ...
