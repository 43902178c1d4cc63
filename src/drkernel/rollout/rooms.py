"""Sampling and evaluating on one GPU take turns: never a kernel of the policy beside a timing.

Two rooms, of which only one has people in it. Whoever wants into the other waits until the first is
empty; from then on newcomers of the first wait, too. So the phases of many episodes fall into step:
all answers of a turn are drawn in few full batches, then all of them are judged.

It binds one process. A gym on the same GPU but in another process (``kernelgym up``) does not know
of it: there the judge's canary finds the disturbed timings, and repeats them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Literal, Protocol, runtime_checkable

from kernelgym.schema import EvalResult, Submission

Room = Literal["answers", "verdicts"]
_OTHER: dict[Room, Room] = {"answers": "verdicts", "verdicts": "answers"}


class Rooms:
    """Who is inside, and who waits; for one event loop."""

    def __init__(self) -> None:
        self._inside: dict[Room, int] = {"answers": 0, "verdicts": 0}
        self._waiting: dict[Room, list[asyncio.Future[None]]] = {"answers": [], "verdicts": []}

    def waiting(self, room: Room) -> int:
        """How many wait for a room."""
        return len(self._waiting[room])

    @asynccontextmanager
    async def inside(self, room: Room) -> AsyncIterator[None]:
        """Be in a room, alone or with others of the same kind."""
        await self._enter(room)
        try:
            yield
        finally:
            self._inside[room] -= 1
            self._settle(_OTHER[room])

    async def _enter(self, room: Room) -> None:
        if not self._inside[_OTHER[room]] and not self._waiting[_OTHER[room]]:
            self._inside[room] += 1
            return
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[room].append(place)
        try:
            await place
        except asyncio.CancelledError:
            with suppress(ValueError):
                self._waiting[room].remove(place)
            if place.done() and not place.cancelled():
                self._inside[room] -= 1  # let in, and gone in the same moment
            self._settle(_OTHER[room])
            raise

    def _settle(self, preferred: Room) -> None:
        """Somebody left or gave up: let in whoever may come in now."""
        busy = next((room for room in _OTHER if self._inside[room]), None)
        if busy is None:
            _ = self._let_in(preferred) or self._let_in(_OTHER[preferred])
        elif not self._waiting[_OTHER[busy]]:
            self._let_in(busy)

    def _let_in(self, room: Room) -> bool:
        """Everybody who waits for the room; says whether there was anybody."""
        places, self._waiting[room] = self._waiting[room], []
        for place in places:
            if not place.done():
                self._inside[room] += 1
                place.set_result(None)
        return self._inside[room] > 0


@runtime_checkable
class OnDevice(Protocol):
    """A policy that computes in this process."""

    rooms: Rooms | None
    """Where it has to be to draw answers."""

    @property
    def device(self) -> str:
        """``cpu`` or ``cuda:N``."""
        ...


class Judge(Protocol):
    """What judges in this process."""

    device: str

    async def evaluate(
        self, submission: Submission, *, key: str = "", force: bool = False
    ) -> EvalResult | None:
        """As `drkernel.rollout.evaluator.Evaluator.evaluate`."""
        ...


class TurnTaking:
    """An `Evaluator` that judges in its room only."""

    def __init__(self, inner: Judge, rooms: Rooms) -> None:
        self._inner, self._rooms = inner, rooms

    async def evaluate(
        self, submission: Submission, *, key: str = "", force: bool = False
    ) -> EvalResult | None:
        """As `Evaluator.evaluate`."""
        async with self._rooms.inside("verdicts"):
            return await self._inner.evaluate(submission, key=key, force=force)


def taking_turns(judge: Judge, policy: object) -> Judge | TurnTaking:
    """The judge, behind a door where the policy computes on the same GPU."""
    if not isinstance(policy, OnDevice) or policy.device == "cpu" or policy.device != judge.device:
        return judge
    policy.rooms = Rooms()
    return TurnTaking(judge, policy.rooms)
