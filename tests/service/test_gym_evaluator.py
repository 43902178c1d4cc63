"""Episodes' way to a gym: many evaluations in few batches, faults as None, refusals apart."""

from __future__ import annotations

import asyncio
import uuid

import pytest
from gym_under_test import ServerProcess, submission

from drkernel.rollout.evaluator import GymEvaluator
from kernelgym.client import AsyncGym
from kernelgym.errors import UsageError
from kernelgym.schema import Submission


def unique(source: str = "ok") -> Submission:
    return submission(source=f"{source} {uuid.uuid4().hex}")


@pytest.mark.usefixtures("worker")
async def test_hundreds_at_once_each_get_their_own_verdict(server: ServerProcess) -> None:
    work = [unique("infra" if n % 50 == 7 else "ok") for n in range(200)]
    async with GymEvaluator(AsyncGym(server.url, name="episodes"), retries=0) as gym:
        found = await asyncio.gather(
            *(gym.evaluate(one, key=f"task/{n}/0") for n, one in enumerate(work))
        )
    for n, (one, result) in enumerate(zip(work, found, strict=True)):
        if n % 50 == 7:
            assert result is None
        else:
            assert result is not None
            assert result.provenance.source_hash == one.source_hash


@pytest.mark.usefixtures("worker")
async def test_what_the_gym_failed_is_tried_again_and_a_bad_reference_is_not(
    server: ServerProcess,
) -> None:
    async with GymEvaluator(AsyncGym(server.url, name="again"), retries=3) as gym:
        later = await gym.evaluate(unique("infra-once"), key="a")
        bad = await asyncio.wait_for(gym.evaluate(unique("reference"), key="b"), 30)
    assert later is not None
    assert bad is None


@pytest.mark.usefixtures("worker")
async def test_one_refused_request_does_not_take_the_others_with_it(server: ServerProcess) -> None:
    # The server takes bodies of a megabyte: this one alone is too much.
    huge = submission(source="ok " + "x" * 990_000 + uuid.uuid4().hex)
    small = [unique() for _ in range(3)]
    async with GymEvaluator(AsyncGym(server.url, name="refused"), retries=0) as gym:
        found = await asyncio.gather(
            *(gym.evaluate(one) for one in (small[0], huge, *small[1:])), return_exceptions=True
        )
    refused = [one for one in found if isinstance(one, UsageError)]
    judged = [one for one in found if one is not None and not isinstance(one, BaseException)]
    assert len(judged) >= 3
    assert len(refused) + len(judged) == 4
