"""One evaluation in one line, and what its end means for the exit code."""

from __future__ import annotations

from kernelgym.api import Evaluation
from kernelgym.cli import exit_codes


def line_of(one: Evaluation, name: str = "") -> str:
    """Id or name, state, verdict, speedup or the reason."""
    parts = [name or one.id, one.state]
    if one.result is not None:
        parts.append(one.result.outcome.value)
        if one.result.speedup is not None:
            parts.append(f"{one.result.speedup:.2f}x")
        if one.result.failure is not None:
            message = one.result.failure.message.splitlines() or [""]
            parts.append(f"{one.result.failure.code}: {message[0][:100]}")
    elif one.reason:
        parts.append(f"{one.reason}: {one.detail}" if one.detail else one.reason)
    return "  ".join(parts)


def exit_code(one: Evaluation) -> int:
    """Exit status for an evaluation that has ended."""
    if one.state != "done" or one.result is None:
        return exit_codes.SERVICE
    return exit_codes.code_of(one.result)
