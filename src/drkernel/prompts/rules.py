"""The rule behind each finding of a hack, in the words a model is told it in.

The ids are those of `kernelgym.schema.Finding.id`. Unknown ids get the general rule, so that a
newer gym is understood.
"""

from __future__ import annotations

GENERAL = "the work must be done by your own kernels, on every call and on the inputs of that call."

_RULES = {
    "no_own_kernel": "kernels that you write must run when `forward` is called and must produce "
    "the result; a kernel that is defined but not launched does not count.",
    "mode_branch": "do the same work in eval mode and in train mode.",
    "forged_frame": "do not write to file descriptors or to the evaluation's own channel.",
}


def rule_of(finding_id: str) -> str:
    """The rule that a finding says was broken."""
    return _RULES.get(finding_id, GENERAL)
