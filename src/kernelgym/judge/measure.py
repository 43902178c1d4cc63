"""The measurement stage: timing and profile, chosen by device.

On a CPU there is nothing to measure: Triton's interpreter says nothing about a GPU, and this says
so. With a GPU a `Measurement` arms calls, times them, checks their outputs and reads the profiler.
"""

from __future__ import annotations

from typing import Protocol

from kernelgym.errors import UsageError
from kernelgym.judge.correctness import Correctness
from kernelgym.judge.dossier import Measured

NO_GPU = "no GPU: Triton's interpreter ran the candidate on the CPU"


class Measurement(Protocol):
    """Something that can time and profile a candidate that has answered correctly."""

    def run(self, correctness: Correctness) -> Measured:
        """Measure; every timed call goes through the trials' own comparison."""
        ...


class NoMeasurement:
    """Without a GPU."""

    def run(self, correctness: Correctness) -> Measured:
        """Say why there are no numbers."""
        return not_measured(NO_GPU)


def not_measured(reason: str) -> Measured:
    """No numbers, for one reason."""
    return Measured(not_measured=dict.fromkeys(("speedup", "coverage", "displaced"), reason))


def measurement_for(device: str) -> Measurement:
    """The measurement that a device allows."""
    if device == "cpu":
        return NoMeasurement()
    raise UsageError(f"no measurement on device {device!r}")
