"""Judges that wait for their task to come back.

Sixteen rollouts of one prompt ask for the same reference; a judge that has loaded and studied it is
kept while it is in use and for a while after. One judge serves one evaluation at a time; several of
a kind may wait. A judge that saw a fault is never put back.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from kernelgym import backends
from kernelgym.schema import Submission
from kernelgym.worker.judge import JudgeProcess

MAX_IDLE = 8
"""Judges that may wait at once; the longest unused goes first."""


@dataclass(frozen=True)
class JudgeKey:
    """What must agree for a judge to be used again."""

    task: str
    protocol: str
    precision: str
    baseline: str
    device: str
    timed_on_cpu: bool
    """It stays on one processor (`EvaluationHost`)."""

    @classmethod
    def of(cls, submission: Submission, device: str) -> JudgeKey:
        """The key of a submission."""
        return cls(
            submission.task.content_hash,
            submission.protocol,
            submission.precision,
            submission.baseline,
            device,
            device == "cpu" and backends.get(submission.backend).times_on_cpu,
        )


class JudgeShelf:
    """Idle judges, newest last."""

    def __init__(self, idle_s: float, most: int = MAX_IDLE) -> None:
        self._idle_s = idle_s
        self._most = most
        self._idle: list[tuple[float, JudgeKey, JudgeProcess]] = []
        self._sweeper: asyncio.Task[None] | None = None
        self._closed = False

    async def take(self, key: JudgeKey) -> JudgeProcess | None:
        """A living judge for ``key``, the most recently used; it is no longer on the shelf."""
        for index in range(len(self._idle) - 1, -1, -1):
            if self._idle[index][1] == key:
                judge = self._idle.pop(index)[2]
                if judge.is_alive():
                    return judge
                await judge.close()
                return await self.take(key)
        return None

    async def put(self, key: JudgeKey, judge: JudgeProcess) -> None:
        """Keep a judge for later; ends those that have waited too long or are too many."""
        if self._closed or self._idle_s <= 0:
            await judge.close()
            return
        self._idle.append((time.monotonic(), key, judge))
        if self._sweeper is None or self._sweeper.done():
            self._sweeper = asyncio.create_task(self._sweep())
        surplus = self._idle[: max(0, len(self._idle) - self._most)]
        del self._idle[: len(surplus)]
        for _, _, old in surplus:
            await old.close()

    async def _sweep(self) -> None:
        while self._idle:
            oldest = self._idle[0][0]
            await asyncio.sleep(max(0.0, oldest + self._idle_s - time.monotonic()))
            now = time.monotonic()
            while self._idle and self._idle[0][0] + self._idle_s <= now:
                await self._idle.pop(0)[2].close()

    async def close(self) -> None:
        """End every idle judge, and keep none from now on."""
        self._closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
            await asyncio.gather(self._sweeper, return_exceptions=True)
        await self.clear()

    async def clear(self) -> None:
        """End every idle judge."""
        idle, self._idle = self._idle, []
        await asyncio.gather(*(judge.close() for _, _, judge in idle))
