"""Results for what is not the candidate's fault: outcome `infrastructure`, never a score.

``reference_*`` codes blame the task; every other code blames the gym or the machine.
"""

from __future__ import annotations

from kernelgym.errors import KernelGymError, SandboxError, TaskError, TransportError
from kernelgym.judge.excerpts import cut
from kernelgym.schema import EvalResult, Failure, Outcome, Provenance, Submission
from kernelgym.worker.judge import JudgeFault


def infrastructure(
    submission: Submission,
    error: KernelGymError | OSError,
    *,
    device: str,
    stage_seconds: dict[str, float],
    wall_seconds: float,
    started_at: str,
) -> EvalResult:
    """A result without a verdict."""
    provenance = Provenance(
        source_hash=submission.source_hash,
        task_hash=submission.task.content_hash,
        device=device,
        protocol=submission.protocol,
        precision=submission.precision,
        evidence={"outcome": "outside"},
        stage_seconds=stage_seconds,
        wall_seconds=wall_seconds,
        started_at=started_at,
    )
    return EvalResult(
        task=submission.task.name,
        backend=submission.backend,
        outcome=Outcome.INFRASTRUCTURE,
        correct=False,
        failure=_failure(error),
        not_measured=dict.fromkeys(
            ("speedup", "coverage", "displaced", "profile"), "nothing was judged"
        ),
        provenance=provenance,
    )


def _failure(error: KernelGymError | OSError) -> Failure:
    code, traceback = "worker_error", ""
    if isinstance(error, TaskError | JudgeFault):
        code, traceback = error.code, error.traceback
    elif isinstance(error, SandboxError):
        code = "sandbox_failed"
    elif isinstance(error, TransportError):
        code = "judge_lost"
    return Failure(
        stage="reference" if code.startswith("reference_") else "gym",
        code=code,
        type=type(error).__name__,
        message=cut(str(error), 4_000),
        traceback=traceback,
    )
