"""The asyncio client; the same calls as `kernelgym.client.sync`, explained there."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterable
from types import TracebackType
from typing import Self

from kernelgym.api import Evaluation, EvaluationRequest, QueueView, WorkerStatus
from kernelgym.client import calls
from kernelgym.client.advice import Advice
from kernelgym.client.batch import POLL_S, Batch, requests_of
from kernelgym.client.faults import GymUnavailable
from kernelgym.client.progress import follow
from kernelgym.client.transport import AsyncTransport
from kernelgym.schema import EvalResult, Submission

Work = Submission | EvaluationRequest


class AsyncGym:
    """A gym at an address; use it as an async context manager, from any number of tasks."""

    def __init__(
        self,
        server: str | None = None,
        *,
        token: str | None = None,
        name: str | None = None,
        patience_s: float = 120.0,
    ) -> None:
        """As `Gym`."""
        self.patience_s = patience_s
        self._transport = AsyncTransport(server, token, name)
        self._advice = Advice()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections; what was submitted goes on."""
        await self._transport.close()

    async def submit(self, work: Work | Iterable[Work], **options: object) -> Batch:
        """Queue evaluations; returns when they are stored."""
        batch = Batch(requests_of(work, **options))
        await self._transport.drive(batch.submit_flow(self.patience_s))
        self._advice.pass_on(batch)
        return batch

    async def results(
        self, batch: Batch, *, timeout_s: float | None = None
    ) -> AsyncIterator[Evaluation]:
        """Yield evaluations as they end; stops when all have, or the time is up."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while not batch.over:
            left = POLL_S if deadline is None else min(POLL_S, deadline - time.monotonic())
            if left <= 0:
                return
            for one in await self._transport.drive(batch.news_flow(self.patience_s, left)):
                yield one

    async def wait(
        self, batch: Batch, *, timeout_s: float | None = None
    ) -> list[Evaluation | None]:
        """All evaluations in order; None for those that have not ended in time."""
        async for _ in self.results(batch, timeout_s=timeout_s):
            pass
        return batch.evaluations

    async def map(
        self,
        work: Iterable[Work],
        *,
        timeout_s: float | None = None,
        progress: bool | Callable[[int, int], None] = False,
        **options: object,
    ) -> list[EvalResult | None]:
        """Verdicts of all, in order; None wherever the gym or a reference failed."""
        batch = await self.submit(work, **options)
        with follow(progress, len(batch)) as report:
            try:
                async for _ in self.results(batch, timeout_s=timeout_s):
                    report(batch.done)
            except GymUnavailable:
                if not batch.done:
                    raise
        return [one.verdict if one else None for one in batch.evaluations]

    async def get(self, evaluation_id: str) -> Evaluation:
        """Read one evaluation."""
        return await self._transport.drive(calls.get_flow(evaluation_id, self.patience_s))

    async def cancel(self, what: Batch | str) -> dict[str, str]:
        """Cancel a batch, or an evaluation by its id; per id, the state it is in now."""
        if isinstance(what, str):
            return await self._transport.drive(
                calls.cancel_flow("evaluations", what, self.patience_s)
            )
        states: dict[str, str] = {}
        for part in what.parts:
            states |= await self._transport.drive(
                calls.cancel_flow("batches", part.id, self.patience_s)
            )
        return states

    async def queue(self) -> QueueView:
        """The queue at this moment."""
        return await self._transport.drive(calls.queue_flow(self.patience_s))

    async def workers(self) -> list[WorkerStatus]:
        """The workers."""
        return await self._transport.drive(calls.workers_flow(self.patience_s))
