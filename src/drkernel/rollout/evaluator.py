"""The way to a gym: an `Evaluator` judges one submission, or says that the gym could not.

    async with open_evaluator(GymSettings()) as gym:
        result = await gym.evaluate(submission, key="task/0/1")

`GymEvaluator` speaks to a service: evaluations that are asked for at about the same time travel as
one batch, so that hundreds of episodes need few connections. In this process it is
`kernelgym.client.here.LocalEvaluator`. A fault of the gym or of a reference is None, never a
verdict; a request that can never succeed raises `UsageError`.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from drkernel.rollout.rooms import taking_turns
from drkernel.rollout.settings import GymSettings
from drkernel.types import Policy
from kernelgym.api import Evaluation, EvaluationRequest
from kernelgym.client import AsyncGym, GymRefused, GymUnavailable
from kernelgym.errors import ServiceError, UsageError
from kernelgym.schema import EvalResult, Submission

_WINDOW_S = 0.02
_MAX_BATCH = 256
_OPEN_BATCHES = 32
"""Long polls at once; what comes meanwhile waits and travels together."""
_FIRST_S = 15.0
"""How long a gym may take to answer at all when a run begins."""
_TOKEN_HINT = "--gym.token-file FILE, or KERNELGYM_TOKEN"


class Evaluator(Protocol):
    """What judges the candidates of episodes."""

    async def evaluate(
        self, submission: Submission, *, key: str = "", force: bool = False
    ) -> EvalResult | None:
        """The verdict, or None where the gym or the reference failed after every retry.

        ``key`` names the request (task/sample/turn); ``force`` evaluates again what was evaluated
        before, with nothing kept of it.
        """
        ...


@dataclass(frozen=True)
class _Asked:
    """A request that waits for its answer."""

    request: EvaluationRequest
    answer: asyncio.Future[Evaluation | None]

    def settle(self, evaluation: Evaluation | None) -> None:
        if not self.answer.done():
            self.answer.set_result(evaluation)


class GymEvaluator:
    """Evaluations by a service; use it as an async context manager."""

    def __init__(self, gym: AsyncGym, *, device: str = "any", retries: int = 2) -> None:
        self._gym = gym
        self._device = device
        self._retries = retries
        self._waiting: list[_Asked] = []
        self._slots = asyncio.Semaphore(_OPEN_BATCHES)
        self._collecting: asyncio.Task[None] | None = None
        self._following: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        running = [*self._following, *([self._collecting] if self._collecting else [])]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await self._gym.close()

    async def evaluate(
        self, submission: Submission, *, key: str = "", force: bool = False
    ) -> EvalResult | None:
        """As `Evaluator.evaluate`."""
        for attempt in range(self._retries + 1):
            # The gym knows a key for good: another attempt needs another one.
            name = hashlib.sha256(f"{key}\0{attempt}\0".encode() + os.urandom(8)).hexdigest()
            request = EvaluationRequest(
                submission=submission, key=name, device=self._device, force=force or attempt > 0
            )
            evaluation = await self._ask(request)
            if evaluation is None:
                continue
            if evaluation.verdict is not None or _is_final(evaluation):
                return evaluation.verdict
        return None

    async def _ask(self, request: EvaluationRequest) -> Evaluation | None:
        asked = _Asked(request, asyncio.get_running_loop().create_future())
        self._waiting.append(asked)
        if self._collecting is None:
            self._collecting = asyncio.create_task(self._collect())
        return await asked.answer

    async def _collect(self) -> None:
        """Send what waits, in batches, until nothing does."""
        try:
            while self._waiting:
                await asyncio.sleep(_WINDOW_S)
                await self._slots.acquire()
                part, self._waiting = self._waiting[:_MAX_BATCH], self._waiting[_MAX_BATCH:]
                task = asyncio.create_task(self._follow(part))
                self._following.add(task)
                task.add_done_callback(self._following.discard)
        finally:
            self._collecting = None

    async def _follow(self, part: list[_Asked]) -> None:
        try:
            await self._batch(part)
        finally:
            self._slots.release()
            for asked in part:
                asked.settle(None)

    async def _batch(self, part: list[_Asked]) -> None:
        by_key = {asked.request.key: asked for asked in part}
        try:
            batch = await self._gym.submit([asked.request for asked in part])
            async for one in self._gym.results(batch):
                by_key[one.key].settle(one)
        except GymRefused as refusal:
            if len(part) > 1:  # one of them is at fault, or they are too many together
                half = len(part) // 2
                await asyncio.gather(self._batch(part[:half]), self._batch(part[half:]))
            elif not part[0].answer.done():
                error = UsageError(f"the gym refuses a request: {refusal}", hint=refusal.hint)
                part[0].answer.set_exception(error)
        except GymUnavailable:
            return  # what has no answer yet has failed for want of a gym


def _is_final(evaluation: Evaluation) -> bool:
    """A faulty reference stays faulty, an unknown backend unknown."""
    failure = evaluation.result.failure if evaluation.result is not None else None
    return failure is not None and failure.code.startswith(("reference_", "unsupported"))


@contextlib.asynccontextmanager
async def open_evaluator(
    settings: GymSettings, policy: Policy | None = None
) -> AsyncIterator[Evaluator]:
    """The gym that the settings mean, until the context ends.

    Here and on the GPU that ``policy`` computes on, the two take turns (`drkernel.rollout.rooms`).
    """
    server = settings.server
    if server == "auto":
        server = os.environ.get("KERNELGYM_SERVER", "here")
    if server == "here":
        from kernelgym.client.here import LocalEvaluator

        async with LocalEvaluator(
            device=settings.device,
            jail=settings.jail,
            concurrency=settings.evaluations,
            retries=settings.retries,
        ) as here:
            yield taking_turns(here, policy)
        return
    if not server.startswith(("http://", "https://")):
        raise UsageError(
            f"gym.server {server!r} is no address", hint="--gym.server http://HOST:PORT, or here"
        )
    token = _token(settings.token_file)
    await _greet(server, token, min(_FIRST_S, settings.patience_s))
    gym = AsyncGym(server, token=token, patience_s=settings.patience_s)
    device = "any" if settings.device == "auto" else settings.device
    async with GymEvaluator(gym, device=device, retries=settings.retries) as remote:
        yield remote


async def _greet(server: str, token: str | None, patience_s: float) -> None:
    """Raise for a wrong address or token before anything is played."""
    async with AsyncGym(server, token=token, patience_s=patience_s) as gym:
        try:
            await gym.queue()
        except GymUnavailable as error:
            raise ServiceError(f"{server}: {error}", hint=error.hint) from error
        except GymRefused as refusal:
            raise UsageError(f"{server}: {refusal}", hint=_TOKEN_HINT) from refusal


def _token(path: str) -> str | None:
    if not path:
        return None
    try:
        return Path(path).read_text().strip()
    except OSError as error:
        raise UsageError(f"cannot read gym.token_file {path}: {error.strerror}") from error
