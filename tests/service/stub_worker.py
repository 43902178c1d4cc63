"""A worker whose evaluator does what the candidate's source says. Order as JSON on stdin.

The source is ``word argument``: ``ok``, ``sleep 0.5``, ``infra``, ``raise``, ``unsupported``,
``reference``, ``hang``, ``exit`` (the worker dies). Anything else is judged correct. The result
carries the hash of the source, so a swapped result can be told.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from logging_link import work

from kernelgym.api import TaskStage
from kernelgym.errors import KernelGymError, UsageError
from kernelgym.schema import EvalResult, Failure, Outcome, Provenance, Submission
from kernelgym.worker.seat import Seat


def verdict(submission: Submission, code: str = "") -> EvalResult:
    """Correct, or an infrastructure result with a code."""
    failure = Failure(stage="gym", code=code, message="as ordered") if code else None
    return EvalResult(
        task=submission.task.name,
        outcome=Outcome.INFRASTRUCTURE if code else Outcome.CORRECT,
        correct=not code,
        failure=failure,
        provenance=Provenance(source_hash=submission.source_hash, stage_seconds={"stub": 0.001}),
    )


class StubEvaluator:
    """Follows orders."""

    def __init__(self) -> None:
        self.failed: set[str] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None:
        return None

    async def evaluate(
        self, submission: Submission, *, on_stage: Callable[[TaskStage], None]
    ) -> EvalResult:
        on_stage("preparing")
        on_stage("running")
        word, _, argument = submission.source.partition(" ")
        match word:
            case "sleep":
                await asyncio.sleep(float(argument.split()[0]))
            case "hang":
                await asyncio.sleep(3600)
            case "raise":
                raise KernelGymError("as ordered")
            case "bug":
                raise ZeroDivisionError("as ordered")
            case "unsupported":
                raise UsageError("no such backend")
            case "exit":
                os._exit(9)
            case "infra":
                return verdict(submission, "worker_error")
            case "infra-once" if submission.source not in self.failed:
                self.failed.add(submission.source)
                return verdict(submission, "worker_error")
            case "reference":
                return verdict(submission, "reference_forward_error")
        return verdict(submission)


async def main(order: dict[str, Any]) -> None:
    """Work until SIGTERM."""
    seats = [
        Seat(
            f"stub:{n}",
            classes=tuple(order.get("classes", ("cpu", "any"))),
            slots=order.get("slots", 2),
            evaluator=StubEvaluator,
        )
        for n in range(order.get("seats", 1))
    ]
    await work(order, seats)


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.stdin.read())))
