"""What a lint says. Imports no torch."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from kernelgym.schema import Protocol

Severity = Literal["fault", "warning"]


class LintFinding(BaseModel):
    """One thing that is wrong with a task."""

    model_config = ConfigDict(frozen=True)

    id: str
    """``accepts_zeros``, ``below_noise``, ``nonfinite_output``, ``reference_*``, ..."""
    severity: Severity
    """A ``fault`` quarantines the task, a ``warning`` is for the person who wrote it."""
    message: str
    """One sentence."""


class LintReport(BaseModel):
    """What the lint found."""

    model_config = ConfigDict(frozen=True)

    task: str
    """Name of the task."""
    protocol: Protocol = "standard"
    """Tolerances that the solvers were measured by."""
    findings: tuple[LintFinding, ...] = ()
    """Faults first."""
    rms: float | None = None
    """Root mean square of the output, the smallest of several."""
    noise: float | None = None
    """Largest difference between two precisions, of that output."""
    margin: float | None = None
    """How far the best solver was from being accepted: 1 is the limit, more is safer."""
    seconds: float = 0.0
    """Wall seconds the lint took."""

    @property
    def ok(self) -> bool:
        """Whether the task can be trusted."""
        return not any(finding.severity == "fault" for finding in self.findings)
