"""The probe stage: further calls that tell computing from pretending.

A probe runs after every trial has passed, may make calls of its own through the trials' code path,
and adds findings. Two of the catalogue's replay probes are part of the trials themselves
(`kernelgym.judge.correctness`): new values at the same address, and at a new one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from kernelgym.judge.correctness import Correctness
from kernelgym.schema import Finding


class Probe(Protocol):
    """One question put to a candidate."""

    name: str

    def run(self, correctness: Correctness) -> list[Finding]:
        """Ask it; a finding of severity ``hack`` settles the outcome."""
        ...


def probes_for(device: str) -> Sequence[Probe]:
    """Probes for a device, cheapest first."""
    return ()
