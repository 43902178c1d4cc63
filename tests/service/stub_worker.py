"""A worker whose evaluator does what the candidate's source says. Order as JSON on stdin.

The source is ``word argument``: ``ok``, ``sleep 0.5``, ``infra``, ``raise``, ``unsupported``,
``reference``, ``hang``, ``exit`` (the worker dies). Anything else is judged correct. The result
carries the hash of the source, so a swapped result can be told.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kernelgym.api import ClaimAnswer, Settlement, TaskStage
from kernelgym.errors import KernelGymError, UsageError
from kernelgym.schema import EvalResult, Failure, Outcome, Provenance, Submission
from kernelgym.worker.agent import Agent
from kernelgym.worker.link import Link
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


class LoggingLink(Link):
    """Writes down what it is given and what becomes of it."""

    def __init__(self, server: str, token: str, worker: str, path: str | None) -> None:
        super().__init__(server, token, worker)
        self._log = Path(path).open("a", buffering=1) if path else None  # noqa: SIM115 - kept open

    def write(self, **event: Any) -> None:
        if self._log:
            line = {"time": time.time(), "who": self.worker, **event}
            self._log.write(json.dumps(line) + "\n")

    async def claim(self, classes: Sequence[str], limit: int) -> ClaimAnswer:
        answer = await super().claim(classes, limit)
        for task in answer.tasks:
            self.write(op="claim", id=task.id, token=task.token)
        return answer

    async def complete(self, items: Sequence[Settlement]) -> tuple[str, ...]:
        answers = await super().complete(items)
        for item, answer in zip(items, answers, strict=True):
            self.write(op="settle", id=item.id, token=item.token, kind=item.kind, answer=answer)
        return answers


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
    link = LoggingLink(order["server"], order["token"], order["name"], order.get("log"))
    agent = Agent(link, seats, jail="none")
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, agent.drain)
    await agent.run(grace_s=order.get("grace_s", 10.0))
    await link.close()


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.stdin.read())))
