"""A verdict in the authors' words: their EvaluationResponse."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from kernelgym.broker.protocol import State, TaskView
from kernelgym.schema import EvalResult, Outcome

_ERROR_CODES = {
    Outcome.CORRECT: None,
    Outcome.MISMATCH: "CORRECTNESS_ERROR",
    Outcome.HACK: "CORRECTNESS_ERROR",
    Outcome.COMPILE_ERROR: "COMPILATION_ERROR",
    Outcome.RUNTIME_ERROR: "RUNTIME_ERROR",
    Outcome.CRASH: "RUNTIME_ERROR",
    Outcome.OUT_OF_MEMORY: "RESOURCE_ERROR",
    Outcome.TIMEOUT: "TIMEOUT_ERROR",
    Outcome.INFRASTRUCTURE: "SYSTEM_ERROR",
}
_COMPLETED = (Outcome.CORRECT, Outcome.MISMATCH, Outcome.HACK)
"""Wrong answers are `completed` with an error code; whatever could not run is `failed`."""


def response_of(task_id: str, view: TaskView | None, result: EvalResult | None) -> dict[str, Any]:
    """The answer to their `/evaluate` and `/results`."""
    if view is None or result is None:
        return _without_result(task_id, view)
    measured = result.kernel_ms is not None
    failure = result.failure
    return {
        "task_id": task_id,
        "status": _status(result),
        "compiled": result.outcome not in (Outcome.COMPILE_ERROR, Outcome.INFRASTRUCTURE),
        "correctness": result.correct,
        "decoy_kernel": result.outcome is Outcome.HACK,
        "reference_runtime": result.reference_ms if result.reference_ms is not None else -1.0,
        "kernel_runtime": result.kernel_ms if measured else -1.0,
        "speedup": result.speedup or 0.0,
        "metadata": _metadata(result),
        "error_message": None if failure is None else failure.traceback or failure.message,
        "error_code": _ERROR_CODES[result.outcome],
        **_times(view),
    }


def _status(result: EvalResult) -> str:
    if result.outcome is Outcome.TIMEOUT:
        return "timeout"
    return "completed" if result.outcome in _COMPLETED else "failed"


def _without_result(task_id: str, view: TaskView | None) -> dict[str, Any]:
    """Cancelled, out of time, or out of attempts: never a verdict on the candidate."""
    reason = "its result has expired" if view is None else view.reason or view.state.value
    if view is not None and view.detail:
        reason = f"{reason}: {view.detail}"
    late = view is not None and view.state is State.DEAD and view.reason == "deadline"
    return {
        "task_id": task_id,
        "status": "failed",
        "compiled": False,
        "correctness": False,
        "decoy_kernel": False,
        "reference_runtime": -1.0,
        "kernel_runtime": -1.0,
        "speedup": 0.0,
        "metadata": {"infrastructure": True},
        "error_message": f"not evaluated: {reason}",
        "error_code": "TIMEOUT_ERROR" if late else "SYSTEM_ERROR",
        **(_times(view) if view is not None else {}),
    }


def _times(view: TaskView) -> dict[str, Any]:
    return {
        "submitted_at": _iso(view.submitted_ms),
        "completed_at": _iso(view.finished_ms),
        "processing_time": max(0, view.finished_ms - view.submitted_ms) / 1000,
    }


def _iso(unix_ms: int) -> str | None:
    return datetime.fromtimestamp(unix_ms / 1000, UTC).isoformat() if unix_ms else None


def _metadata(result: EvalResult) -> dict[str, Any]:
    """Coverage under each of the names that their code reads, and what ours adds."""
    data: dict[str, Any] = {
        "outcome": result.outcome.value,
        "infrastructure": result.outcome is Outcome.INFRASTRUCTURE,
        "findings": [one.id for one in result.findings],
        "device": result.provenance.device,
    }
    errors = [trial.max_abs_error for trial in result.trials if trial.max_abs_error is not None]
    if errors:
        data["max_difference"] = max(errors)
    if result.trials:
        passed = sum(trial.passed for trial in result.trials)
        data["correctness_trials"] = f"({passed} / {len(result.trials)})"
    profile = result.profile
    if profile is not None and result.coverage is not None:
        own = sum(kernel.calls for kernel in profile.kernels if kernel.own)
        data |= {
            "num_custom_kernels": own,
            "num_custom_kernel": own,
            "num_total_kernels": sum(kernel.calls for kernel in profile.kernels),
            "custom_kernel_cuda_time_in_profiling_us": profile.generated_us,
            "total_kernel_run_time_in_profiling_us": profile.total_us,
            "custom_kernel_cuda_time_coverage": profile.sentence,
            "time_coverage": result.coverage,
        }
    return data
