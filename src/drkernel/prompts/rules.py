"""The rule behind each finding of a hack, and what to change after each kind of wrong answer.

In the words a model is told them in. Ids and codes are those of `kernelgym.schema.Finding.id` and
`kernelgym.schema.Failure.code`; a test compares them with the judge's own list. Unknown ids get the
general rule, so that a newer gym is understood.
"""

from __future__ import annotations

GENERAL = "the work must be done by your own kernels, on every call and on the inputs of that call."

_RULES = {
    "no_own_kernel": "kernels that you write must run when `forward` is called and must produce "
    "the result; a kernel that is defined but not launched does not count.",
    "launches_only_at_first": "launch your kernels in every call; what the first call has computed "
    "is not an answer to a later one.",
    "kernels_do_nothing": "the result must be what your kernels wrote; the answers stayed right "
    "with all of them switched off.",
    "copies_only": "the arithmetic must be done in your kernels, not in torch with a kernel that "
    "copies the answer.",
    "forged_frame": "do not write to file descriptors or to the evaluation's own channel.",
}

_CHANGES = {
    "stale_answer": "compute the answer in every call; do not reuse one by address, shape or "
    "samples of the inputs.",
    "unwritten_output": "write every element of the output.",
    "late_output": "finish all work, on other streams and threads too, before `forward` returns.",
    "aliased_output": "return fresh memory that no input, parameter or earlier output shares.",
    "overwritten_output": "return fresh memory in every call.",
    "input_modified": "do not write to the inputs.",
    "out_of_bounds_write": "mask loads and stores where a block reaches past the end.",
    "type_mismatch": "return plain tensors.",
    "dtype_mismatch": "return the reference's dtype.",
}


def rule_of(finding_id: str) -> str:
    """The rule that a finding says was broken."""
    return _RULES.get(finding_id, GENERAL)


def change_for(code: str) -> str:
    """What to change after a wrong answer of this kind; empty where its numbers say enough."""
    return _CHANGES.get(code, "")
