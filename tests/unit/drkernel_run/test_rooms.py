"""Sampling and judging on one GPU: never at once, everybody gets a turn, nobody is lost."""

import asyncio
import random
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest

from drkernel.rollout.rooms import Rooms, TurnTaking, taking_turns


class Watch:
    """Notes who is inside, and complains when both rooms have people."""

    def __init__(self):
        self.inside = {"answers": 0, "verdicts": 0}
        self.order = []

    @asynccontextmanager
    async def at(self, room):
        self.inside[room] += 1
        assert not (self.inside["answers"] and self.inside["verdicts"])
        self.order.append(room)
        try:
            yield
        finally:
            self.inside[room] -= 1


async def _visit(rooms, watch, room, pauses):
    async with rooms.inside(room), watch.at(room):
        for _ in range(pauses):
            await asyncio.sleep(0)


async def test_episodes_fall_into_step():
    rooms, watch = Rooms(), Watch()

    async def episode(number):
        for _ in range(3):
            await _visit(rooms, watch, "answers", 1 + number % 3)
            await _visit(rooms, watch, "verdicts", 1 + number % 5)

    await asyncio.gather(*(episode(number) for number in range(8)))
    assert watch.order == [*["answers"] * 8, *["verdicts"] * 8] * 3


@pytest.mark.parametrize("seed", range(20))
async def test_never_both_and_never_stuck_with_cancellations(seed):
    rooms, watch, draw = Rooms(), Watch(), random.Random(seed)

    async def visitor():
        for _ in range(draw.randrange(1, 6)):
            await _visit(rooms, watch, draw.choice(("answers", "verdicts")), draw.randrange(4))

    visitors = [asyncio.create_task(visitor()) for _ in range(20)]
    for one in draw.sample(visitors, 8):
        for _ in range(draw.randrange(4)):
            await asyncio.sleep(0)
        one.cancel()
    async with asyncio.timeout(10):
        done = await asyncio.gather(*visitors, return_exceptions=True)
    assert not [error for error in done if isinstance(error, AssertionError)]
    async with asyncio.timeout(10):  # both rooms can be entered afterwards
        await _visit(rooms, watch, "answers", 0)
        await _visit(rooms, watch, "verdicts", 0)


async def _judge(submission, *, key="", force=False):
    return None


def test_only_a_policy_on_the_same_gpu_takes_turns():
    judge = SimpleNamespace(device="cuda:0", evaluate=_judge)
    for device, shares in (("cuda:0", True), ("cuda:1", False), ("cpu", False)):
        policy = SimpleNamespace(device=device, rooms=None)
        assert isinstance(taking_turns(judge, policy), TurnTaking) is shares
        assert (policy.rooms is not None) is shares
    assert taking_turns(judge, SimpleNamespace(name="a server's")) is judge
    assert taking_turns(judge, None) is judge
    on_cpu = SimpleNamespace(device="cpu", evaluate=_judge)
    assert taking_turns(on_cpu, SimpleNamespace(device="cpu", rooms=None)) is on_cpu
