"""Turns beside others and alone, and when others are to blame."""

import asyncio

import pytest

from kernelgym.schema import EvalResult, Failure, Outcome
from kernelgym.worker.turns import Turns, blames_neighbours


async def test_nobody_runs_beside_one_that_is_alone():
    turns, running, seen = Turns(3), set(), []

    async def ordinary(name):
        async with turns.one():
            running.add(name)
            assert "alone" not in running
            await asyncio.sleep(0.01)
            running.discard(name)

    async def alone():
        async with turns.alone():
            assert not running
            running.add("alone")
            await asyncio.sleep(0.01)
            seen.append(set(running))
            running.discard("alone")

    await asyncio.wait_for(
        asyncio.gather(*(ordinary(i) for i in range(8)), alone(), alone(), ordinary(9)), 10
    )
    assert seen == [{"alone"}] * 2


async def test_turns_come_back_when_waiting_is_given_up():
    turns = Turns(2)
    async with turns.one():
        waiting = asyncio.create_task(turns.alone().__aenter__())
        await asyncio.sleep(0.01)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    async with asyncio.timeout(5), turns.alone():
        pass


def result(outcome, code=""):
    failure = None if outcome is Outcome.CORRECT else Failure(stage="s", code=code, message="m")
    return EvalResult(
        task="t", outcome=outcome, correct=outcome is Outcome.CORRECT, failure=failure
    )


@pytest.mark.parametrize(
    ("outcome", "code", "used", "blamed"),
    [
        (Outcome.OUT_OF_MEMORY, "exception_out_of_memory", 50, True),
        (Outcome.OUT_OF_MEMORY, "exception_out_of_memory", 20, False),
        (Outcome.INFRASTRUCTURE, "reference_does_not_fit", 50, True),
        (Outcome.INFRASTRUCTURE, "sandbox_failed", 50, False),
        (Outcome.MISMATCH, "value_mismatch", 99, False),
    ],
)
def test_who_is_to_blame(outcome, code, used, blamed):
    assert blames_neighbours(result(outcome, code), used, 100) is blamed
