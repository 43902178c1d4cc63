"""A worker: claims evaluations for its devices, judges them, gives them back. One event loop.

    seats     one a device; each claims as many tasks as it has free slots
    outbox    results on their way to the server, several in one request
    heartbeat extends the leases of all that is held, says how far each is, and hears what was
              cancelled or lost; sooner than usual, yet at most once a second, when one got further

A result whose lease is over is dropped: somebody else has the task. On `drain` it claims no more,
ends what it holds, and hands back what takes too long. What it cannot do itself, restart when its
own loop hangs or its process dies, `kernelgym.worker.supervisor` does.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import os
import platform
import time
from collections.abc import Sequence
from typing import Any, Literal

from kernelgym import __version__
from kernelgym.api import HeldTask, LeasedTask, Settlement, TaskStage, WorkerInfo
from kernelgym.errors import UsageError
from kernelgym.schema import EvalResult, Outcome
from kernelgym.worker.link import Link
from kernelgym.worker.seat import Seat

log = logging.getLogger("kernelgym.worker")
_MOST_IN_ONE_REQUEST = 64
_DEFAULT_LEASE_S = 30.0
_BEAT_S = 1.0
_NEWS_S = 1.0
"""Between heartbeats that only say how far a task is."""
_EMPTY_PAUSE_S = 0.2


class Agent:
    """A worker on the devices of ``seats``."""

    def __init__(
        self, link: Link, seats: Sequence[Seat], *, jail: str = "", beat_fd: int | None = None
    ) -> None:
        """``beat_fd``: a byte is written there every second, for whoever watches this process."""
        self._link, self._seats, self._jail, self._beat_fd = link, seats, jail, beat_fd
        self._held: dict[str, tuple[HeldTask, asyncio.Task[None] | None]] = {}
        self._outbox: asyncio.Queue[Settlement] = asyncio.Queue()
        self._lease_s = _DEFAULT_LEASE_S
        self._draining = asyncio.Event()
        self._news = asyncio.Event()

    def drain(self) -> None:
        """Claim no more; `run` returns when everything is given back."""
        self._draining.set()

    async def run(self, *, grace_s: float = 60.0) -> None:
        """Work until drained; then wait ``grace_s`` for what is being judged."""
        claims = [asyncio.create_task(self._claim(seat)) for seat in self._seats]
        loops = [asyncio.create_task(seat.keep_usable()) for seat in self._seats]
        loops += [asyncio.create_task(one) for one in (self._deliver(), self._heartbeats())]
        loops += [asyncio.create_task(self._beat())]
        drained: asyncio.Task[Any] = asyncio.create_task(self._draining.wait())
        everything: list[asyncio.Task[Any]] = [*claims, *loops, drained]
        try:
            await asyncio.wait(everything, return_when=asyncio.FIRST_COMPLETED)
            for task in (*claims, *loops):
                if task.done():
                    task.result()  # a bug in one of the loops ends the process, not just the loop
            for task in claims:
                task.cancel()  # a claim that the server has just answered is undone by `leave`
            await self._finish(grace_s)
        finally:
            for task in everything:
                task.cancel()
            await asyncio.gather(*everything, return_exceptions=True)
            for seat in self._seats:
                await seat.stop()

    async def _finish(self, grace_s: float) -> None:
        end = time.monotonic() + grace_s
        while self._held and time.monotonic() < end:
            await asyncio.sleep(0.05)
        late = [task for _, task in self._held.values() if task is not None]
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(5.0):
                await self._outbox.join()
        await self._link.leave()

    # Claiming and judging

    async def _claim(self, seat: Seat) -> None:
        while not self._draining.is_set():
            await seat.usable.wait()
            free = seat.slots - len(seat.tasks)
            if free <= 0:
                seat.freed.clear()
                await seat.freed.wait()
                continue
            answer = await self._link.claim(seat.classes, min(free, _MOST_IN_ONE_REQUEST))
            self._lease_s = answer.lease_s
            if not answer.tasks:
                await asyncio.sleep(_EMPTY_PAUSE_S)  # a server that stops answers at once
            for leased in answer.tasks:
                self._take(seat, leased)

    def _take(self, seat: Seat, leased: LeasedTask) -> None:
        held = HeldTask(id=leased.id, token=leased.token, stage="leased")
        task = asyncio.create_task(self._judge(seat, leased))
        self._held[leased.id] = (held, task)
        seat.tasks[leased.id] = task

    async def _judge(self, seat: Seat, leased: LeasedTask) -> None:
        try:
            settlement = await self._settle(seat, leased)
        finally:
            seat.tasks.pop(leased.id, None)
            seat.freed.set()
        if self._is_held(leased):
            held, _ = self._held[leased.id]
            self._held[leased.id] = (held, None)  # until it is delivered
            self._outbox.put_nowait(settlement)

    def _is_held(self, leased: LeasedTask) -> bool:
        known = self._held.get(leased.id)
        return known is not None and known[0].token == leased.token

    async def _settle(self, seat: Seat, leased: LeasedTask) -> Settlement:
        if self._draining.is_set() or not seat.usable.is_set():
            return _settlement(leased, "release")
        try:
            result = await seat.evaluate(leased, functools.partial(self._reached, leased))
        except asyncio.CancelledError:
            return _settlement(leased, "release", "cancelled")
        except UsageError as error:
            return _settlement(leased, "verdict", result=_refused(leased, error))
        except Exception as error:
            log.warning("evaluation failed", exc_info=error, extra={"task": leased.id})
            return _settlement(leased, "retry", f"{type(error).__name__}: {error}"[:500])
        seat.done += 1
        if result.outcome is Outcome.INFRASTRUCTURE and not _reference_at_fault(result):
            code = result.failure.code if result.failure else ""
            return _settlement(leased, "retry", code, result)
        return _settlement(leased, "verdict", result=result)

    def _reached(self, leased: LeasedTask, stage: TaskStage) -> None:
        """A task got further; the next heartbeat says so."""
        if self._is_held(leased):
            held, task = self._held[leased.id]
            self._held[leased.id] = (held.model_copy(update={"stage": stage}), task)
            self._news.set()

    # Talking to the server

    async def _deliver(self) -> None:
        while True:
            items = [await self._outbox.get()]
            while not self._outbox.empty() and len(items) < _MOST_IN_ONE_REQUEST:
                items.append(self._outbox.get_nowait())
            answers = await self._link.complete(items)
            for item, answer in zip(items, answers, strict=True):
                known = self._held.get(item.id)
                if known is not None and known[0].token == item.token:
                    del self._held[item.id]
                self._outbox.task_done()
                if answer not in ("ok", "same"):
                    log.info("result refused", extra={"task": item.id, "answer": answer})

    async def _heartbeats(self) -> None:
        while True:
            every_s = self._lease_s / 3
            self._news.clear()
            held = [known for known, _ in self._held.values()]
            answer = await self._link.heartbeat(self._info(), held, every_s)
            if answer is not None:
                self._lease_s = answer.lease_s
                for one, word in zip(held, answer.answers, strict=True):
                    if word != "ok":
                        self._drop(one, word)
            pause_s = min(_NEWS_S, self._lease_s / 3)
            await asyncio.sleep(pause_s)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), self._lease_s / 3 - pause_s)

    def _drop(self, lost: HeldTask, answer: str) -> None:
        """The task is somebody else's, or nobody's: stop working on it."""
        known = self._held.get(lost.id)
        if known is None or known[0].token != lost.token:
            return
        del self._held[lost.id]
        log.info("lease lost", extra={"task": lost.id, "answer": answer})
        if known[1] is not None:
            known[1].cancel()

    def _info(self) -> WorkerInfo:
        return WorkerInfo(
            host=platform.node(),
            pid=os.getpid(),
            classes=tuple(dict.fromkeys(name for seat in self._seats for name in seat.classes)),
            slots=sum(seat.slots for seat in self._seats),
            jail=self._jail,
            draining=self._draining.is_set(),
            devices=tuple(seat.state() for seat in self._seats),
            versions={"kernelgym": __version__, "python": platform.python_version()},
        )

    async def _beat(self) -> None:
        while True:
            if self._beat_fd is not None:
                os.write(self._beat_fd, b".")
            await asyncio.sleep(_BEAT_S)


def _settlement(
    leased: LeasedTask,
    kind: Literal["verdict", "retry", "release"],
    detail: str = "",
    result: EvalResult | None = None,
) -> Settlement:
    return Settlement(id=leased.id, token=leased.token, kind=kind, detail=detail, result=result)


def _reference_at_fault(result: EvalResult) -> bool:
    """Another attempt would end the same."""
    return result.failure is not None and result.failure.code.startswith("reference_")


def _refused(leased: LeasedTask, error: UsageError) -> EvalResult:
    """This gym cannot judge such a submission at all, e.g. for want of its backend."""
    submission = leased.submission
    return EvalResult.model_validate(
        {
            "task": submission.task.name,
            "backend": submission.backend,
            "outcome": Outcome.INFRASTRUCTURE,
            "correct": False,
            "failure": {
                "stage": "gym",
                "code": "unsupported",
                "type": type(error).__name__,
                "message": str(error),
            },
            "provenance": {
                "source_hash": submission.source_hash,
                "task_hash": submission.task.content_hash,
            },
        }
    )
