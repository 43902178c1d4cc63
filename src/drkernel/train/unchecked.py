"""What a gym without hack checks would have said: for the arm of a comparison that goes without.

The judge is asked as always; a verdict of ``hack`` whose outputs were all right is then turned into
``correct`` with the speedup that was measured, its evidence into a warning. The candidate's
feedback and pay follow from that. `was_hack` still knows. Never on by default.
"""

from __future__ import annotations

from drkernel.rollout.evaluator import Evaluator
from kernelgym.schema import EvalResult, Outcome, Submission

UNCHECKED = "hack_check"
"""Key in ``provenance.flags`` of a verdict that was turned."""


def was_hack(result: EvalResult) -> bool:
    """Whether the judge found a hack, paid or not."""
    return result.outcome is Outcome.HACK or result.provenance.flags.get(UNCHECKED) == "off"


def unchecked(result: EvalResult) -> EvalResult:
    """The verdict without the hack checks; the same where these did not decide it."""
    passed = bool(result.trials) and all(trial.passed for trial in result.trials)
    if result.outcome is not Outcome.HACK or not passed:
        return result
    record = min(result.timings, key=lambda timing: timing.speedup, default=None)
    findings = tuple(
        finding.model_copy(update={"severity": "warning"})
        if finding.severity == "hack"
        else finding
        for finding in result.findings
    )
    flags = result.provenance.flags | {UNCHECKED: "off"}
    changes = {
        "outcome": Outcome.CORRECT,
        "correct": True,
        "failure": None,
        "findings": findings,
        "speedup": record.speedup if record else None,
        "speedup_interval": (record.speedup_low, record.speedup_high) if record else None,
        "reference_ms": record.reference_ms if record else None,
        "kernel_ms": record.kernel_ms if record else None,
        "provenance": result.provenance.model_copy(update={"flags": flags}),
    }
    return EvalResult.model_validate(result.model_copy(update=changes).model_dump())


class UncheckedEvaluator:
    """An `Evaluator` without hack checks."""

    def __init__(self, inner: Evaluator) -> None:
        self._inner = inner

    async def evaluate(
        self, submission: Submission, *, key: str = "", force: bool = False
    ) -> EvalResult | None:
        """As `Evaluator.evaluate`."""
        result = await self._inner.evaluate(submission, key=key, force=force)
        return None if result is None else unchecked(result)
