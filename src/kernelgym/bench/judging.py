"""Judge many submissions, in a gym or on this machine, and hand on each result as it comes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kernelgym.client import Gym
from kernelgym.errors import KernelGymError
from kernelgym.schema import EvalResult, JailLevel, Outcome, Submission

Report = Callable[[int, EvalResult | None, str], None]
"""Called with the index of the submission, the verdict or None, and why there is none."""


def judge_in_gym(gym: Gym, work: list[Submission], report: Report) -> None:
    """Submit all and report them as they end."""
    batch = gym.submit(work)
    keys = [request.key for part in batch.parts for request in part.requests]
    index = {key: n for n, key in enumerate(keys)}
    for one in gym.results(batch):
        end = f"{one.state} {one.reason} {one.detail}"
        report(index[one.key], one.verdict, _why_not(one.result, end))


def judge_here(
    work: list[Submission], report: Report, *, device: str, jail: JailLevel, concurrency: int | None
) -> None:
    """Judge on this machine, without a server; ``concurrency`` as in `EvaluationHost`."""
    asyncio.run(_judge_here(work, report, device, jail, concurrency))


async def _judge_here(
    work: list[Submission], report: Report, device: str, jail: JailLevel, concurrency: int | None
) -> None:
    from kernelgym.worker.host import EvaluationHost

    host = EvaluationHost(jail_level=jail, device=device, concurrency=concurrency)
    async with host, asyncio.TaskGroup() as group:

        async def one(index: int, submission: Submission) -> None:
            try:
                result = await host.evaluate(submission)
            except KernelGymError as error:
                report(index, None, str(error))
                return
            verdict = None if result.outcome is Outcome.INFRASTRUCTURE else result
            report(index, verdict, _why_not(result, ""))

        for index, submission in enumerate(work):
            group.create_task(one(index, submission))


def _why_not(result: EvalResult | None, otherwise: str) -> str:
    if result is None:
        return otherwise.strip()
    if result.outcome is Outcome.INFRASTRUCTURE and result.failure is not None:
        return f"{result.failure.code}: {result.failure.message}"[:500]
    return ""
