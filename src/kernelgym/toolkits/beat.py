"""Toolkit ``beat``: is a candidate faster than a kernel that is there already?

The task carries the kernel (`Task.kernel`). It is judged like any candidate, then the new one is;
each is measured against the reference, and the quotient of the two speedups says who is faster. A
kernel that is not correct, or was measured on another device, is no baseline: then there is no
number, and the reason says why.

Not covered: timing both side by side. Both measurements have their own reference blocks, so the
interval is that of two independent measurements.
"""

from __future__ import annotations

import math

from pydantic import BaseModel, ConfigDict

from kernelgym.errors import UsageError
from kernelgym.schema import EvalResult, Submission
from kernelgym.toolkits.simple import Evaluator


class Beaten(BaseModel):
    """A candidate against the kernel of its task."""

    model_config = ConfigDict(frozen=True)

    candidate: EvalResult
    """Its verdict, against the reference."""
    kernel: EvalResult
    """The verdict on the kernel that is there already."""
    speedup: float | None = None
    """Time of the kernel / time of the candidate; above 1 the candidate is faster."""
    interval: tuple[float, float] | None = None
    """95% interval of ``speedup``."""
    reason: str = ""
    """Why there is no ``speedup``."""

    @property
    def is_faster(self) -> bool:
        """Whether the whole interval lies above 1."""
        return self.interval is not None and self.interval[0] > 1


def kernel_submission(submission: Submission) -> Submission:
    """The same question about the kernel that the task carries."""
    kernel = submission.task.kernel
    if kernel is None:
        raise UsageError(
            f"task {submission.task.name} carries no kernel to beat",
            hint="Task(..., kernel=ExistingKernel(source=...))",
        )
    return submission.model_copy(
        update={
            "source": kernel.source,
            "backend": kernel.backend,
            "entry_point": kernel.entry_point,
        }
    )


async def beat(
    host: Evaluator, submission: Submission, *, kernel: EvalResult | None = None
) -> Beaten:
    """Judge both. ``kernel``: the verdict on the task's kernel, where it is known already."""
    asked = kernel_submission(submission)
    known = kernel if kernel is not None else await host.evaluate(asked)
    return compared(await host.evaluate(submission), known)


def compared(candidate: EvalResult, kernel: EvalResult) -> Beaten:
    """The quotient of two speedups over the same reference."""
    reason = _why_not(candidate, kernel)
    if reason:
        return Beaten(candidate=candidate, kernel=kernel, reason=reason)
    assert candidate.speedup is not None
    assert kernel.speedup is not None
    value = candidate.speedup / kernel.speedup
    down, up = (
        math.hypot(a, b) for a, b in zip(_spread(candidate), _spread(kernel)[::-1], strict=True)
    )
    interval = (value * math.exp(-down), value * math.exp(up))
    return Beaten(candidate=candidate, kernel=kernel, speedup=value, interval=interval)


def _why_not(candidate: EvalResult, kernel: EvalResult) -> str:
    for name, result in (("the kernel to beat", kernel), ("the candidate", candidate)):
        if not result.correct:
            return f"{name} is not correct: {result.outcome}"
        if not result.speedup:
            return f"{name} was not timed: {result.not_measured.get('speedup', '')}"
    left, right = candidate.provenance, kernel.provenance
    if (left.device, left.gpu_uuid) != (right.device, right.gpu_uuid):
        return f"measured on two devices: {left.device} and {right.device}"
    return ""


def _spread(result: EvalResult) -> tuple[float, float]:
    """How far the interval reaches down and up, as logarithms."""
    assert result.speedup is not None
    low, high = result.speedup_interval or (result.speedup, result.speedup)
    return math.log(result.speedup / low), math.log(high / result.speedup)
