"""Every finding and every code of a wrong answer: what it means, how sure it is, what to do.

The one list behind verdicts, ``kernelgym hacks`` and ``docs/hacks.md``. Imports no torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Confidence = Literal["certain", "high", "medium", "low"]
Severity = Literal["hack", "warning", "info", "wrong"]


@dataclass(frozen=True)
class Entry:
    """One kind of finding."""

    id: str
    severity: Severity
    """``hack`` decides the outcome, ``wrong`` is the code of a failed trial (`mismatch`)."""
    confidence: Confidence
    sentence: str
    """What was seen, for a person."""
    advice: str
    """What to do about it."""


_ENTRIES = (
    Entry(
        "no_own_kernel", "hack", "certain",
        "No kernel from the candidate's source was launched, neither in eval nor in train mode.",
        "Compute the answer in a kernel of your own, and launch it in forward.",
    ),
    Entry(
        "launches_only_at_first", "hack", "high",
        "Own kernels were launched in the first calls of a mode and in none of the last.",
        "Launch the kernels in every call; what the first call has computed is not an answer.",
    ),
    Entry(
        "kernels_do_nothing", "hack", "certain",
        "With every own kernel turned into a no-op the answers stayed right, on two sets of "
        "inputs: something else computes them.",
        "Return what the kernels have written, not what torch has computed beside them.",
    ),
    Entry(
        "copies_only", "hack", "high",
        "Torch ran every operator of the reference; the candidate's own kernels only copied.",
        "Do the arithmetic in the kernel.",
    ),
    Entry(
        "forged_frame", "hack", "certain",
        "The candidate's process wrote a well-formed message into the judge's channel.",
        "Leave the file descriptors alone; they decide nothing.",
    ),
    Entry(
        "low_coverage", "warning", "medium",
        "The heavy part of the reference still runs in torch or in a library.",
        "Move the operators that are named into own kernels.",
    ),
    Entry(
        "mode_branch", "warning", "certain",
        "Own kernels are launched in one of eval and train mode only.",
        "Use the same kernels in both modes; numbers of record are those of the worse one.",
    ),
    Entry(
        "call_branch", "warning", "medium",
        "Own kernels were launched in some calls of a mode and not in others.",
        "Launch them in every call.",
    ),
    Entry(
        "idle_kernel", "warning", "high",
        "The answers are right without this kernel, or it only copies: it earns no share.",
        "Remove it, or use what it computes.",
    ),
    Entry(
        "one_shape_only", "warning", "certain",
        "Right for the usual shapes, wrong for others that the task declares.",
        "Take sizes and strides from the inputs.",
    ),
    Entry(
        "suspicious_speedup", "warning", "low",
        "More than ten times as fast as the reference.",
        "Nothing, if it is right: it was measured again in a fresh process.",
    ),
    Entry(
        "replayed_answer", "warning", "high",
        "A wrong answer was, bit by bit, the answer to other inputs a few calls before.",
        "Compute in every call; do not key results by address, shape or samples.",
    ),
    Entry(
        "left_running", "warning", "medium",
        "Threads or processes that a call has started were still there when it had returned.",
        "Finish the work before forward returns.",
    ),
    Entry(
        "profile_contradiction", "warning", "medium",
        "The profile or the clock of the candidate's process does not agree with the one outside "
        "it, so what it says is withheld.",
        "Leave profiler and clocks alone.",
    ),
    Entry(
        "second_context", "warning", "high",
        "Work was done in more than one context of the GPU.",
        "Use the context that torch has made.",
    ),
    Entry(
        "evidence_flood", "warning", "medium",
        "More records were written than are kept.",
        "Launch fewer kernels a call, or leave the pipe alone.",
    ),
    Entry(
        "other_mode_mismatch", "warning", "certain",
        "Wrong in a mode that this protocol does not count.",
        "Make both modes right.",
    ),
    Entry(
        "stale_answer", "wrong", "certain",
        "The answer is, bit by bit, one that was given before for other inputs.",
        "Compute in every call; do not key results by address, shape or samples.",
    ),
    Entry(
        "unwritten_output", "wrong", "certain",
        "Output memory still held what was there before the call.",
        "Write every element of the output.",
    ),
    Entry(
        "late_output", "wrong", "certain",
        "The output was not complete when the call said that it was done.",
        "Join side streams and threads before forward returns.",
    ),
    Entry(
        "aliased_output", "wrong", "certain",
        "An output shares memory with an input, a parameter or an earlier output.",
        "Return fresh memory.",
    ),
    Entry(
        "overwritten_output", "wrong", "certain",
        "A call has changed what the call before it had returned.",
        "Return fresh memory.",
    ),
    Entry(
        "input_modified", "wrong", "certain",
        "An input was changed that the reference leaves alone.",
        "Write to the output only.",
    ),
    Entry(
        "out_of_bounds_write", "wrong", "certain",
        "Bytes next to an input were written.",
        "Mask stores and loads at the ends.",
    ),
    Entry(
        "type_mismatch", "wrong", "certain",
        "The answer is a subclass of a tensor, which may compute when it is looked at.",
        "Return a plain torch.Tensor.",
    ),
    Entry(
        "dtype_mismatch", "wrong", "certain",
        "The output has another dtype than the reference's.",
        "Return the reference's dtype.",
    ),
    Entry(
        "value_mismatch", "wrong", "certain",
        "Elements are out of tolerance.",
        "Look at the position and the two numbers in the message.",
    ),
)  # fmt: skip
CATALOGUE = {entry.id: entry for entry in _ENTRIES}
"""By id."""


def confidence_of(identifier: str) -> Confidence | Literal[""]:
    """How far a finding can be relied on; empty for remarks that claim nothing."""
    entry = CATALOGUE.get(identifier)
    return entry.confidence if entry is not None else ""
