"""A candidate against the kernel that its task carries."""

import asyncio
import math

import pytest

from kernelgym.errors import UsageError
from kernelgym.schema import (
    EvalResult,
    ExistingKernel,
    Failure,
    Outcome,
    Provenance,
    Submission,
    Task,
)
from kernelgym.toolkits.beat import beat, compared

KERNEL = ExistingKernel(source="old = 1", backend="numba", entry_point="Old")
TASK = Task(name="t", reference="import torch\n", kernel=KERNEL)


def result(speedup: float | None, low: float = 1.0, high: float = 1.0, gpu: str = "a"):
    return EvalResult(
        task="t",
        outcome=Outcome.CORRECT,
        correct=True,
        speedup=speedup,
        speedup_interval=None if speedup is None else (speedup * low, speedup * high),
        not_measured={} if speedup else {"speedup": "no GPU"},
        provenance=Provenance(device="gpu", gpu_uuid=gpu),
    )


def test_both_are_judged_and_the_quotient_says_who_is_faster():
    asked: list[Submission] = []

    class Host:
        async def evaluate(self, submission: Submission) -> EvalResult:
            asked.append(submission)
            return result(2.0 if submission.entry_point == "Old" else 3.0)

    found = asyncio.run(beat(Host(), Submission(task=TASK, source="new = 1")))
    assert [(one.source, one.backend, one.entry_point) for one in asked] == [
        ("old = 1", "numba", "Old"),
        ("new = 1", "triton", "ModelNew"),
    ]
    assert found.speedup == pytest.approx(1.5)
    assert found.is_faster
    known = asyncio.run(beat(Host(), Submission(task=TASK, source="new = 1"), kernel=result(6.0)))
    assert known.speedup == pytest.approx(0.5)
    assert not known.is_faster
    assert len(asked) == 3


def test_errors_of_both_measurements_add_in_square():
    found = compared(result(2.0, 0.9, 1.2), result(2.0, 0.8, 1.1))
    assert found.interval is not None
    low, high = (math.log(value) for value in found.interval)
    assert low == pytest.approx(-math.hypot(math.log(1 / 0.9), math.log(1.1)))
    assert high == pytest.approx(math.hypot(math.log(1.2), math.log(1 / 0.8)))
    assert not found.is_faster


def test_no_number_without_two_comparable_measurements():
    wrong = EvalResult(
        task="t",
        outcome=Outcome.MISMATCH,
        correct=False,
        failure=Failure(stage="compare", code="value_mismatch"),
    )
    assert "the kernel to beat is not correct" in compared(result(2.0), wrong).reason
    assert "no GPU" in compared(result(None), result(2.0)).reason
    assert "two devices" in compared(result(2.0, gpu="b"), result(2.0)).reason
    with pytest.raises(UsageError, match="carries no kernel"):
        plain = TASK.model_copy(update={"kernel": None})
        asyncio.run(beat(None, Submission(task=plain, source="x")))


def test_a_kernel_decides_no_verdict_and_travels_with_its_task():
    assert TASK.content_hash == TASK.model_copy(update={"kernel": None}).content_hash
    assert Task.model_validate_json(TASK.model_dump_json()).kernel == KERNEL
