"""One `EvaluationHost` for many candidates, in an event loop of its own; results as futures."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Sequence
from typing import Any, Self

from hack_corpus import Case

from kernelgym.schema import EvalResult, Submission
from kernelgym.worker.host import EvaluationHost

Result = concurrent.futures.Future[EvalResult]


class Session:
    """Submit now, read later."""

    def __init__(self, *, device: str = "cpu", concurrency: int = 2, memory_mb: int = 8192) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._host = EvaluationHost(
            device=device, concurrency=concurrency, fallback=True, judge_memory_mb=memory_mb
        )

    def __enter__(self) -> Self:
        self._thread.start()
        self._run(self._host.__aenter__()).result()
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._host.__aexit__(None, None, None)).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, work: Any) -> concurrent.futures.Future[Any]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def submit_all(self, cases: Sequence[Case]) -> dict[str, Result]:
        """By name; one task's cases after one another, so that its judge is there already."""
        ordered = sorted(cases, key=lambda case: case.task_name)
        return {case.name: self.submit(case.submission()) for case in ordered}

    def submit(self, submission: Submission) -> Result:
        return self._run(self._host.evaluate(submission))
