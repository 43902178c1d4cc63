"""A gym in this process: `LocalEvaluator` judges on this machine, without server or broker.

    async with LocalEvaluator() as gym:
        result = await gym.evaluate(submission)     # None where the machine or a reference failed

The judges and candidates run in jailed processes of their own, as under a worker. Importing this
module imports neither the host nor torch; entering the context does. For many machines, or for
work that must outlive this process, use `kernelgym.client.AsyncGym`.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
from types import TracebackType
from typing import TYPE_CHECKING, Self

from kernelgym.cli.device import resolve_device
from kernelgym.errors import KernelGymError, ServiceError, UsageError
from kernelgym.schema import EvalResult, JailLevel, Outcome, Submission

if TYPE_CHECKING:
    from kernelgym.worker.host import EvaluationHost

DEFAULT_RETRIES = 2
_PAUSE_S = 0.5


class LocalEvaluator:
    """Judges submissions here; use it as an async context manager, in one event loop."""

    def __init__(
        self,
        *,
        device: str = "auto",
        jail: JailLevel = "L1",
        fallback: bool = True,
        concurrency: int | None = None,
        retries: int = DEFAULT_RETRIES,
    ) -> None:
        """``device``: auto, cpu or cuda:N. ``fallback``: take a lower jail level where ``jail``
        cannot be had; every result says which was reached. ``retries``: how often an evaluation
        that ended as infrastructure is tried again.
        """
        self.device = resolve_device(device)
        self.retries = retries
        self._jail: JailLevel = jail
        self._fallback = fallback
        self._concurrency = concurrency
        self._host: EvaluationHost | None = None
        self._stack = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Self:
        missing = [name for name in ("torch", "triton") if importlib.util.find_spec(name) is None]
        if missing:
            raise ServiceError(
                f"{' and '.join(missing)} not installed: an evaluation on this machine needs them",
                hint="pip install 'drkernel[worker]', or --gym.server http://HOST:PORT",
            )
        from kernelgym.worker.host import EvaluationHost

        host = EvaluationHost(
            jail_level=self._jail,
            device=self.device,
            fallback=self._fallback,
            concurrency=self._concurrency,
        )
        self._host = await self._stack.enter_async_context(host)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._host = None
        await self._stack.aclose()

    async def evaluate(
        self, submission: Submission, *, key: str = "", force: bool = False
    ) -> EvalResult | None:
        """The verdict, or None where this machine or the reference failed, after retries.

        ``force`` takes a judge that has seen nothing before. ``key`` is for evaluators that keep
        results; nothing is kept here.

        Raises:
            UsageError: an unknown backend, or one that cannot run on this device.
        """
        if self._host is None:
            raise UsageError("a LocalEvaluator must be entered: async with LocalEvaluator() as gym")
        for attempt in range(self.retries + 1):
            try:
                result = await self._host.evaluate(submission, fresh=force or attempt > 0)
            except UsageError:
                raise
            except KernelGymError:
                result = None
            if result is not None and result.outcome is not Outcome.INFRASTRUCTURE:
                return result
            if result is not None and _is_final(result):
                return None
            await asyncio.sleep(_PAUSE_S * (attempt + 1))
        return None


def _is_final(result: EvalResult) -> bool:
    """A faulty reference stays faulty."""
    return result.failure is not None and result.failure.code.startswith("reference_")
