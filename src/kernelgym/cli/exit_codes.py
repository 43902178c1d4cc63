"""What the process's exit status says."""

from __future__ import annotations

from kernelgym.schema import EvalResult, Outcome

OK = 0
"""The candidate was accepted, or the command did what it should."""
CANDIDATE_FAILED = 1
"""The candidate was judged and is not correct."""
USAGE = 2
"""The command line or a file it names is at fault."""
SERVICE = 3
"""The gym, the machine, a GPU or the reference is at fault; the candidate was not judged."""


def code_of(result: EvalResult) -> int:
    """Exit status for a verdict."""
    if result.outcome is Outcome.CORRECT:
        return OK
    return SERVICE if result.outcome is Outcome.INFRASTRUCTURE else CANDIDATE_FAILED
