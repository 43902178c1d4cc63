"""Seats and agents with a stub evaluator and a server written by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

import pytest

from kernelgym.api import (
    ClaimAnswer,
    HeartbeatAnswer,
    HeldTask,
    LeasedTask,
    Settlement,
    TaskStage,
    WorkerInfo,
)
from kernelgym.errors import SandboxError
from kernelgym.schema import EvalResult, Failure, Outcome, Submission, Task
from kernelgym.worker import agent as agent_module
from kernelgym.worker import seat as seat_module
from kernelgym.worker.agent import Agent
from kernelgym.worker.seat import Seat

LEASE_S = 0.3


def leased(name: str, token: int = 1, source: str = "ok") -> LeasedTask:
    submission = Submission(task=Task(name=name, reference="r"), source=source, timeout_s=0.1)
    return LeasedTask(id=name, token=token, remaining_s=60, submission=submission)


def result(outcome: Outcome = Outcome.CORRECT, code: str = "") -> EvalResult:
    failure = Failure(stage="gym", code=code) if code else None
    correct = outcome is Outcome.CORRECT
    return EvalResult(task="t", outcome=outcome, correct=correct, failure=failure)


class Evaluator:
    """Follows the source; remembers how often it was started and cancelled."""

    starts = 0
    cancelled = 0

    async def __aenter__(self) -> Self:
        type(self).starts += 1
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
        if submission.source == "staged":
            await asyncio.sleep(0.3)
            on_stage("running")
            await asyncio.sleep(0.3)
        if submission.source == "infra":
            return result(Outcome.INFRASTRUCTURE, "worker_error")
        if submission.source == "hang":
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                type(self).cancelled += 1
                raise
        return result()


class Server:
    """Stands in for `Link`: hands out what it has, answers as it is told."""

    worker = "w"

    def __init__(self, *tasks: LeasedTask) -> None:
        self.tasks = list(tasks)
        self.settled: list[Settlement] = []
        self.heartbeats: list[tuple[WorkerInfo, list[HeldTask]]] = []
        self.lost: set[str] = set()
        self.left = False
        self.more = asyncio.Event()

    async def claim(self, classes: Sequence[str], limit: int) -> ClaimAnswer:
        assert classes
        if not self.tasks:
            await self.more.wait()
            self.more.clear()
        given, self.tasks = self.tasks[:limit], self.tasks[limit:]
        return ClaimAnswer(tasks=tuple(given), lease_s=LEASE_S)

    async def heartbeat(
        self, info: WorkerInfo, held: Sequence[HeldTask], patience_s: float
    ) -> HeartbeatAnswer:
        assert patience_s > 0
        self.heartbeats.append((info, list(held)))
        answers = tuple("stale" if one.id in self.lost else "ok" for one in held)
        return HeartbeatAnswer(answers=answers, lease_s=LEASE_S)

    async def complete(self, items: Sequence[Settlement]) -> tuple[str, ...]:
        self.settled += items
        return tuple("ok" for _ in items)

    async def leave(self) -> None:
        self.left = True


@pytest.fixture(autouse=True)
def fresh_counts() -> None:
    Evaluator.starts = Evaluator.cancelled = 0


def seat(**options: Any) -> Seat:
    fields = {"classes": ("cpu",), "slots": 2, "evaluator": Evaluator}
    return Seat("cpu", **{**fields, **options})


async def until(condition: Any) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.01)


class Running:
    """An agent at work, drained at the end."""

    def __init__(self, server: Server, *seats: Seat, grace_s: float = 5.0) -> None:
        self.agent = Agent(server, seats)  # type: ignore[arg-type]
        self.grace_s = grace_s

    async def __aenter__(self) -> Agent:
        self.task = asyncio.create_task(self.agent.run(grace_s=self.grace_s))
        return self.agent

    async def __aexit__(self, *_: object) -> None:
        self.agent.drain()
        await self.task


async def test_tasks_are_judged_and_given_back() -> None:
    server = Server(*(leased(f"t{n}") for n in range(7)))
    async with Running(server, seat()):
        await until(lambda: len(server.settled) == 7)
    assert {(one.id, one.kind) for one in server.settled} == {
        (f"t{n}", "verdict") for n in range(7)
    }
    assert server.left


async def test_faults_of_the_gym_are_retries() -> None:
    server = Server(leased("t", source="infra"))
    async with Running(server, seat()):
        await until(lambda: server.settled)
    [one] = server.settled
    assert (one.kind, one.detail) == ("retry", "worker_error")


async def test_heartbeats_say_how_far_a_task_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_module, "_NEWS_S", 0.01)
    server = Server(leased("t", source="staged"))
    async with Running(server, seat()):
        await until(lambda: server.settled)
    stages = [one.stage for _, held in server.heartbeats for one in held]
    assert list(dict.fromkeys(stages)) == ["preparing", "running"]


async def test_lost_lease_stops_the_work_and_nothing_is_sent() -> None:
    server = Server(leased("t", source="hang"))
    async with Running(server, seat()):
        await until(lambda: any(held for _, held in server.heartbeats))
        server.lost.add("t")
        await until(lambda: Evaluator.cancelled == 1)
        await until(lambda: not server.heartbeats[-1][1])
    assert server.settled == []


async def test_same_task_leased_again_is_another_lease() -> None:
    server = Server(leased("t", token=1, source="hang"))
    async with Running(server, seat()):
        await until(lambda: any(held for _, held in server.heartbeats))
        server.lost.add("t")
        await until(lambda: Evaluator.cancelled == 1)
        server.lost.clear()
        server.tasks.append(leased("t", token=2))
        server.more.set()
        await until(lambda: server.settled)
    assert [(one.id, one.token, one.kind) for one in server.settled] == [("t", 2, "verdict")]


async def test_drain_lets_work_end_and_hands_back_what_takes_too_long() -> None:
    server = Server(leased("slow", source="hang"))
    async with Running(server, seat(), grace_s=0.2):
        await until(lambda: any(held for _, held in server.heartbeats))
    assert [(one.id, one.kind) for one in server.settled] == [("slow", "release")]
    assert server.heartbeats[-1][0].classes == ("cpu",)


async def test_evaluator_that_hangs_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seat_module, "_ELSE_S", 0.1)
    server = Server(leased("t", source="hang"), leased("u"))
    async with Running(server, seat(slots=1)):
        await until(lambda: len(server.settled) == 2)
    kinds = {one.id: one.kind for one in server.settled}
    assert kinds["t"] == "retry"
    assert Evaluator.starts == 2


async def test_sick_device_is_quarantined_and_recovers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seat_module, "_FIRST_PAUSE_S", 0.05)
    trouble = "the canary did not end"

    async def health() -> str:
        return trouble

    server = Server(leased("t", source="infra"), leased("u"))
    it = seat(slots=1, health=health)
    async with Running(server, it):
        await until(lambda: it.state().state == "quarantined")
        assert it.state().note == trouble
        assert Evaluator.starts == 0
        await asyncio.sleep(0.2)
        assert len(server.tasks) == 2, "a sick device claims nothing"
        trouble = ""
        await until(lambda: server.settled)
        trouble = "sick again"
        server.tasks.append(leased("v", source="infra"))
        server.more.set()
        await until(lambda: it.state().state == "quarantined")
        trouble = ""
        await until(lambda: it.state().state == "ready")
    assert Evaluator.starts == 2


async def test_evaluator_that_cannot_start_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seat_module, "_FIRST_PAUSE_S", 0.05)

    class Broken(Evaluator):
        async def __aenter__(self) -> Self:
            if type(self).starts < 2:
                type(self).starts += 1
                raise SandboxError("no zygote")
            return await super().__aenter__()

    server = Server(leased("t"))
    async with Running(server, seat(evaluator=Broken)):
        await until(lambda: server.settled)
    assert Broken.starts == 3
