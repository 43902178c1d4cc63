"""What the candidate's process says of torch's switches, and what a result says of them.

Read twice before anything is timed: when the harness has set them and no line of the candidate has
run (another value than here is a fault of the gym then), and when the candidate's source has been
imported. The second is a claim and decides nothing: a candidate may allow TF32 in its own process,
and every switch is put back before its next call (`kernelgym.sandbox.pinning`). Of record is what
is read in the judge's own process, at the end of an evaluation.
"""

from __future__ import annotations

from collections.abc import Mapping

from kernelgym.errors import SandboxError
from kernelgym.judge.peer import parse
from kernelgym.sandbox import pinning
from kernelgym.sandbox.frames import Frame
from kernelgym.sandbox.messages import Claims

AS_PINNED = "as pinned"
_LONGEST_VALUE = 16


def check_harness(frame: Frame) -> None:
    """The answer to SETUP; raises `SandboxError` when a switch is not as it is here.

    Both processes have put back the same switches of the same torch, which need not know all.
    """
    there = parse(Claims, frame, "setup").switches
    if different := pinning.differences(there, pinning.read()):
        raise SandboxError(f"switches of torch could not be set in the jail: {different[:300]}")


def claimed(frame: Frame) -> str:
    """The answer to LOAD, in words."""
    switches = parse(Claims, frame, "load").switches
    said = {name: _short(value) for name, value in switches.items()}
    return pinning.differences(said, pinning.read()) or AS_PINNED


def flags(candidate: str, reference: Mapping[str, str]) -> dict[str, str]:
    """For a result: the switches as they are in this process now, and who has changed any.

    ``reference``: what the task's own code had set before they were put back.
    """
    found = pinning.read()
    if candidate:
        found["candidate_switches"] = candidate
    if reference:
        found["reference_switches"] = " ".join(f"{n}={v}" for n, v in reference.items())
    return found


def _short(value: str) -> str:
    return value if value.isalnum() and len(value) <= _LONGEST_VALUE else "?"
