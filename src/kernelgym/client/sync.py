"""The blocking client."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Self

from kernelgym.api import Evaluation, EvaluationRequest, QueueView, WorkerStatus
from kernelgym.client import calls
from kernelgym.client.advice import Advice
from kernelgym.client.batch import POLL_S, Batch, requests_of
from kernelgym.client.faults import GymUnavailable
from kernelgym.client.progress import follow
from kernelgym.client.transport import Transport
from kernelgym.schema import EvalResult, Submission

Work = Submission | EvaluationRequest


class Gym:
    """A gym at an address; use it as a context manager, from one thread at a time."""

    def __init__(
        self,
        server: str | None = None,
        *,
        token: str | None = None,
        name: str | None = None,
        patience_s: float = 120.0,
    ) -> None:
        """``server`` and ``token``: else ``KERNELGYM_SERVER`` and ``KERNELGYM_TOKEN``.

        ``name``: who this is, where the gym asks for no token. ``patience_s``: how long the gym may
        be away before a call gives up.
        """
        self.patience_s = patience_s
        self._transport = Transport(server, token, name)
        self._advice = Advice()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; what was submitted goes on."""
        self._transport.close()

    def submit(self, work: Work | Iterable[Work], **options: object) -> Batch:
        """Queue evaluations; returns when they are stored.

        Where no worker of a class is connected, `Batch.warnings` and a warning in the log say so.

        ``options`` are fields of `EvaluationRequest` (``priority``, ``device``, ``deadline_s``,
        ``force``, ``key``), for submissions that do not come as one.
        """
        batch = Batch(requests_of(work, **options))
        self._transport.drive(batch.submit_flow(self.patience_s))
        self._advice.pass_on(batch)
        return batch

    def results(self, batch: Batch, *, timeout_s: float | None = None) -> Iterator[Evaluation]:
        """Yield evaluations as they end; stops when all have, or the time is up."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while not batch.over:
            left = POLL_S if deadline is None else min(POLL_S, deadline - time.monotonic())
            if left <= 0:
                return
            yield from self._transport.drive(batch.news_flow(self.patience_s, left))

    def wait(self, batch: Batch, *, timeout_s: float | None = None) -> list[Evaluation | None]:
        """All evaluations in order; None for those that have not ended in time."""
        for _ in self.results(batch, timeout_s=timeout_s):
            pass
        return batch.evaluations

    def map(
        self,
        work: Iterable[Work],
        *,
        timeout_s: float | None = None,
        progress: bool | Callable[[int, int], None] = False,
        **options: object,
    ) -> list[EvalResult | None]:
        """Evaluate all and return verdicts in order; None wherever the gym or a reference failed.

        ``progress``: True for a bar on stderr, or a function of (done, total).
        """
        batch = self.submit(work, **options)
        with follow(progress, len(batch)) as report:
            try:
                for _ in self.results(batch, timeout_s=timeout_s):
                    report(batch.done)
            except GymUnavailable:
                if not batch.done:
                    raise
        return [one.verdict if one else None for one in batch.evaluations]

    def get(self, evaluation_id: str) -> Evaluation:
        """Read one evaluation."""
        return self._transport.drive(calls.get_flow(evaluation_id, self.patience_s))

    def cancel(self, what: Batch | str) -> dict[str, str]:
        """Cancel a batch, or an evaluation by its id; per id, the state it is in now."""
        if isinstance(what, str):
            return self._transport.drive(calls.cancel_flow("evaluations", what, self.patience_s))
        states: dict[str, str] = {}
        for part in what.parts:
            states |= self._transport.drive(calls.cancel_flow("batches", part.id, self.patience_s))
        return states

    def queue(self) -> QueueView:
        """The queue at this moment."""
        return self._transport.drive(calls.queue_flow(self.patience_s))

    def workers(self) -> list[WorkerStatus]:
        """The workers."""
        return self._transport.drive(calls.workers_flow(self.patience_s))
