"""Toolkit ``simple``: a candidate against given cases, each with its own tolerance.

A case is plain data: constructor arguments, inputs, the expected answer. It becomes a task whose
reference returns that answer, so that the judge feeds the candidate, in its jail, and compares;
the tolerance of the case is then put in place of the protocol's. A candidate that knows the cases
can recite them: only fresh inputs and a reference rule that out.

Not covered: timing, and the hack verdict where a case's tolerance is wider than the protocol's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pydantic import BaseModel, ConfigDict, Field

from kernelgym.schema import EvalResult, Outcome, Submission, Task, Trial
from kernelgym.toolkits.values import Value, rms, source_of


class Evaluator(Protocol):
    """What answers submissions: an `EvaluationHost`, or a client of a service."""

    async def evaluate(self, submission: Submission) -> EvalResult:
        """The verdict on one submission."""
        ...


class Case(BaseModel):
    """One question with its answer."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    name: str = ""
    """Name for people."""
    init: tuple[Value, ...] = ()
    """Arguments of the constructor."""
    inputs: tuple[Value, ...]
    """Arguments of ``forward``."""
    expected: Value
    """What ``forward`` must return; floating-point tensors in float32."""
    atol: float = Field(default=1e-5, ge=0)
    """Absolute part of the tolerance."""
    rtol: float = Field(default=1e-4, ge=0)
    """Part of the tolerance that is relative to the expected answer's root mean square."""

    @property
    def allowed(self) -> float:
        """Largest error of any element."""
        return self.atol + self.rtol * rms(self.expected)

    def task(self, number: int) -> Task:
        """The case as a task."""
        reference = f"""\
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, *arguments):
        super().__init__()

    def forward(self, *inputs):
        return {source_of(self.expected)}


def get_inputs():
    return list({source_of(self.inputs)})


def get_init_inputs():
    return list({source_of(self.init)})
"""
        return Task(name=self.name or f"case {number}", reference=reference, origin="simple")


class CaseResult(BaseModel):
    """What became of one case."""

    model_config = ConfigDict(frozen=True)

    name: str
    passed: bool
    error: float | None = None
    """Largest error of any element, where values could be compared."""
    allowed: float
    """Largest error that the case allows."""
    reason: str = ""
    """Why it did not pass."""
    result: EvalResult
    """The judge's own verdict, under the protocol's tolerance."""


class SimpleResult(BaseModel):
    """A candidate on all cases."""

    model_config = ConfigDict(frozen=True)

    passed: bool
    """Every case passed."""
    cases: tuple[CaseResult, ...]


async def evaluate_cases(
    host: Evaluator,
    source: str,
    cases: Sequence[Case],
    *,
    backend: str = "triton",
    entry_point: str = "ModelNew",
    timeout_s: float = 60.0,
) -> SimpleResult:
    """Judge a candidate on every case, whatever becomes of the others."""
    found = []
    for number, case in enumerate(cases):
        submission = Submission(
            task=case.task(number),
            source=source,
            backend=backend,
            entry_point=entry_point,
            trials=1,
            timeout_s=timeout_s,
        )
        found.append(_judge(case, await host.evaluate(submission)))
    return SimpleResult(passed=bool(found) and all(c.passed for c in found), cases=tuple(found))


def _judge(case: Case, result: EvalResult) -> CaseResult:
    reason, error = _reason(case, result)
    return CaseResult(
        name=result.task,
        passed=not reason,
        error=error,
        allowed=case.allowed,
        reason=reason,
        result=result,
    )


def _reason(case: Case, result: EvalResult) -> tuple[str, float | None]:
    """Why the case fails, or an empty string; and the largest error."""
    if result.outcome not in (Outcome.CORRECT, Outcome.MISMATCH):
        said = result.failure.message if result.failure else ""
        return f"{result.outcome}: {said}", None
    broken = [trial for trial in result.trials if not _has_values(trial)]
    if broken:
        return broken[0].detail or broken[0].status, None
    errors = [trial.max_abs_error for trial in result.trials if trial.max_abs_error is not None]
    error = max(errors, default=None)
    if error is None:
        wrong = [trial for trial in result.trials if not trial.passed]
        return (wrong[0].detail or wrong[0].status) if wrong else "", None
    if error > case.allowed:
        return f"an element is off by {error:.3g}, allowed are {case.allowed:.3g}", error
    return "", error


def _has_values(trial: Trial) -> bool:
    """Whether structure, shapes and special values agree, so that the error says all."""
    if trial.passed:
        return True
    return trial.status == "value_mismatch" and trial.max_abs_error is not None
