"""What the judge does to tell computing from pretending: one object a question, in one tuple.

The tuple is handed to the judge by whoever starts it; no setting, flag or field of a request can
change it. Three kinds:

* `Safeguard`: part of every trial (`kernelgym.judge.correctness` looks at the names). That every
  call has new values, twice at one address and then at another, is no choice and has no name;
* `ReplayProbe`s: further checked calls after the trials of a mode have passed;
* `LastProbe`s: calls after the last timed one, in the process that is about to be ended, because
  they may leave it in any state. `BlankedKernels` has a process of its own.

Which cheat each is for, and what it costs, is in ``docs/hacks.md``.
"""

from __future__ import annotations

from kernelgym.judge.probes.ablation import Ablation
from kernelgym.judge.probes.base import LastProbe, Probe, ReplayProbe, Safeguard
from kernelgym.judge.probes.blanked import BlankedKernels
from kernelgym.judge.probes.hidden import HiddenInputs
from kernelgym.judge.probes.replay import FewElements, SameElsewhere

FILLED_MEMORY = Safeguard("filled_memory")
"""Memory that a call allocates holds NaNs in one call and tiny numbers in the next."""
GUARD_BANDS = Safeguard("guard_bands")
"""So do bands round the inputs, which are looked at afterwards."""
HELD_OUTPUTS = Safeguard("held_outputs")
"""Answers are looked at once more after the next call."""
UNCHANGED_INPUTS = Safeguard("unchanged_inputs")
"""Inputs are compared, bit by bit, with what the reference has left."""
OWN_MEMORY = Safeguard("own_memory")
"""Outputs share no memory that the reference's do not share."""
EXACT_TYPES = Safeguard("exact_types")
"""Tensors, not subclasses; the dtype, shape and container of the reference."""
LAUNCHES = Safeguard("launches")
"""A candidate that launches no kernel of its own is a hack."""
BOTH_MODES = Safeguard("both_modes")
"""In eval mode and in train mode, and in calls after the first."""
CENSUS = Safeguard("census")
"""Operators of torch, threads and processes are counted."""

SAFEGUARDS = (
    FILLED_MEMORY,
    GUARD_BANDS,
    HELD_OUTPUTS,
    UNCHANGED_INPUTS,
    OWN_MEMORY,
    EXACT_TYPES,
    LAUNCHES,
    BOTH_MODES,
    CENSUS,
)
PROBES: tuple[Probe, ...] = (
    *SAFEGUARDS,
    FewElements(),
    SameElsewhere(),
    Ablation(),
    HiddenInputs(),  # after it: what fails there may end the process
    BlankedKernels(),
)
"""All of them."""

__all__ = [
    "PROBES",
    "SAFEGUARDS",
    "Ablation",
    "BlankedKernels",
    "FewElements",
    "HiddenInputs",
    "LastProbe",
    "Probe",
    "ReplayProbe",
    "Safeguard",
    "SameElsewhere",
]
