"""One device of a worker: its evaluator, its health, the tasks in its hands.

An evaluator that hangs past every deadline of its own, or a device that fails its health check, is
replaced as a whole: closed, checked, started again. While it is away the seat is `quarantined` and
takes no work; what it held goes back.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Literal, Protocol, Self

from kernelgym.api import DeviceState, LeasedTask, TaskStage
from kernelgym.errors import KernelGymError, UsageError
from kernelgym.schema import EvalResult, Outcome, Submission

log = logging.getLogger("kernelgym.worker")
_ELSE_S = 600.0
"""Longest that the stages outside the candidate's own limit may take: 300 s of waiting for the GPU
(`kernelgym.judge.gate`), and the reference."""
_ATTEMPTS = 2
"""What ran out of memory beside others is judged again alone."""
_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 300.0


class Evaluator(Protocol):
    """What judges on one device; `EvaluationHost` is one."""

    async def __aenter__(self) -> Self:
        """Start."""
        ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> bool | None:
        """End everything it started."""
        ...

    async def evaluate(
        self, submission: Submission, *, on_stage: Callable[[TaskStage], None]
    ) -> EvalResult:
        """Judge, and say how far it is."""
        ...


Health = Callable[[], Awaitable[str]]
"""'' for a healthy device, else what is wrong with it."""


async def always_healthy() -> str:
    """For devices without a check: a CPU, a test's."""
    return ""


class Seat:
    """A device and what it does."""

    def __init__(
        self,
        name: str,
        *,
        classes: tuple[str, ...],
        slots: int,
        evaluator: Callable[[], Evaluator],
        health: Health = always_healthy,
        model: str = "",
        uuid: str = "",
    ) -> None:
        """``slots``: how many evaluations it holds at once, being prepared or running."""
        self.name, self.classes, self.slots = name, classes, slots
        self.model, self.uuid = model, uuid
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.freed = asyncio.Event()
        self.usable = asyncio.Event()
        self.done = 0
        self._make, self._health = evaluator, health
        self._stack = AsyncExitStack()
        self._evaluator: Evaluator | None = None
        self._note = ""
        self._broken = asyncio.Event()
        self._stopped = False

    def state(self) -> DeviceState:
        """For the heartbeat."""
        return DeviceState(
            name=self.name,
            model=self.model,
            uuid=self.uuid,
            state=self._state(),
            note=self._note,
            held=len(self.tasks),
            done=self.done,
        )

    def _state(self) -> Literal["ready", "starting", "quarantined", "stopped"]:
        if self._stopped:
            return "stopped"
        if self.usable.is_set():
            return "ready"
        return "quarantined" if self._note else "starting"

    async def keep_usable(self) -> None:
        """Start the evaluator, and replace it whenever it breaks."""
        pause_s = _FIRST_PAUSE_S
        while True:
            self._note = await self._start()
            if not self._note:
                pause_s = _FIRST_PAUSE_S
                self.usable.set()
                await self._broken.wait()
                self.usable.clear()
                self._note = self._note or "being restarted"
                for task in list(self.tasks.values()):
                    task.cancel()
            await self._end()
            self._broken.clear()
            if not self._note:
                continue
            log.warning("device unusable", extra={"device": self.name, "note": self._note})
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)

    async def _start(self) -> str:
        trouble = await self._health()
        if trouble:
            return trouble
        try:
            self._evaluator = await self._stack.enter_async_context(self._make())
        except UsageError:
            raise
        except (KernelGymError, OSError) as error:
            return f"{type(error).__name__}: {error}"
        return ""

    async def _end(self) -> None:
        self._evaluator = None
        with contextlib.suppress(KernelGymError, OSError):
            await self._stack.aclose()

    async def stop(self) -> None:
        """End the evaluator for good."""
        self._stopped = True
        self.usable.clear()
        await self._end()

    def break_down(self, note: str) -> None:
        """Something is wrong with the evaluator or the device: replace it."""
        self._note = note
        self._broken.set()

    async def evaluate(
        self, leased: LeasedTask, on_stage: Callable[[TaskStage], None]
    ) -> EvalResult:
        """Judge, within a limit behind all of the evaluator's own."""
        if self._evaluator is None:
            raise KernelGymError("the device is not usable")
        limit_s = _ATTEMPTS * leased.submission.timeout_s + _ELSE_S
        try:
            async with asyncio.timeout(limit_s):
                result = await self._evaluator.evaluate(leased.submission, on_stage=on_stage)
        except TimeoutError:
            self.break_down(f"no answer within {limit_s:.0f} s")
            raise
        if result.outcome is Outcome.INFRASTRUCTURE:
            await self._check()
        return result

    async def _check(self) -> None:
        trouble = await self._health()
        if trouble:
            self.break_down(trouble)
