"""A gym for code that is not asynchronous: submissions in, verdicts out.

`BackgroundJudge` keeps one evaluator (a service, or this machine) in an event loop of its own
thread, from the first request until `close` or the end of the process. It may be called from any
number of threads and event loops. After a fork a new one is needed (`shared_judge` sees to that).
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Callable, Sequence
from typing import Self

from drkernel.rollout.evaluator import Evaluator, open_evaluator
from drkernel.rollout.settings import GymSettings
from kernelgym.errors import ServiceError
from kernelgym.schema import EvalResult, Submission

Judge = Callable[[Sequence[Submission]], Sequence[EvalResult | None]]
"""Verdicts in order; None where the gym or the reference failed."""

_END_S = 30.0


class BackgroundJudge:
    """An evaluator behind a plain function call; also a context manager."""

    def __init__(self, gym: GymSettings | None = None) -> None:
        """``gym``: where to judge; by default ``$KERNELGYM_SERVER``, else this machine."""
        self._settings = gym or GymSettings()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._opened = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._evaluator: Evaluator | None = None
        self._stop: asyncio.Event | None = None
        self._fault: BaseException | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __call__(self, submissions: Sequence[Submission]) -> list[EvalResult | None]:
        """Judge all of them; blocks until every one has its verdict."""
        loop = self._open()
        return asyncio.run_coroutine_threadsafe(self._all(submissions), loop).result()

    async def evaluate(self, submission: Submission) -> EvalResult | None:
        """Judge one, from any event loop."""
        loop = await asyncio.to_thread(self._open)
        (result,) = await asyncio.wrap_future(
            asyncio.run_coroutine_threadsafe(self._all([submission]), loop)
        )
        return result

    def close(self) -> None:
        """End the evaluator and its thread."""
        with self._lock:
            thread, loop, stop = self._thread, self._loop, self._stop
            self._thread = None
        if thread is not None and thread.is_alive() and loop is not None and stop is not None:
            loop.call_soon_threadsafe(stop.set)
            thread.join(_END_S)
        atexit.unregister(self.close)

    async def _all(self, submissions: Sequence[Submission]) -> list[EvalResult | None]:
        assert self._evaluator is not None
        asked = [self._evaluator.evaluate(submission) for submission in submissions]
        return list(await asyncio.gather(*asked))

    def _open(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._thread is None:
                self._opened.clear()
                self._fault = None
                self._thread = threading.Thread(target=self._run, name="judge", daemon=True)
                self._thread.start()
                atexit.register(self.close)
        self._opened.wait()
        if self._fault is not None:
            with self._lock:
                self._thread = None
            raise self._fault
        if self._loop is None:
            raise ServiceError("the judge was closed")
        return self._loop

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as fault:  # noqa: BLE001 - raised in the threads that wait for it
            self._fault = fault
        finally:
            self._loop = None
            self._opened.set()

    async def _serve(self) -> None:
        async with open_evaluator(self._settings) as evaluator:
            self._evaluator = evaluator
            self._stop = asyncio.Event()
            self._loop = asyncio.get_running_loop()
            self._opened.set()
            await self._stop.wait()


_shared: dict[int, BackgroundJudge] = {}
_shared_lock = threading.Lock()


def shared_judge() -> BackgroundJudge:
    """The judge of this process, with default settings; made at the first call."""
    with _shared_lock:
        return _shared.setdefault(os.getpid(), BackgroundJudge())
