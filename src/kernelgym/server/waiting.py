"""Waiting without polling: bells that ring when there is work, or when a batch moves.

One connection of the server blocks on the broker's wake lists for all its waiting workers, and one
listens for finished tasks. A bell only says "look again": whoever wakes asks the broker, so a lost
or needless ring costs time, never correctness.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Iterable, Sequence

from kernelgym.broker.protocol import BrokerUnavailable
from kernelgym.broker.valkey import Broker

_RETRY_S = 0.3
REAP_LIMIT = 500
log = logging.getLogger("kernelgym.server")


class Bells:
    """Named bells; each ring wakes one waiter or all."""

    def __init__(self) -> None:
        self._waiters: dict[str, dict[asyncio.Event, None]] = {}
        self.changed = asyncio.Event()
        """Set when somebody waits for a name nobody waited for."""

    def names(self) -> list[str]:
        """What somebody waits for."""
        return sorted(self._waiters)

    async def wait(self, names: Iterable[str], timeout_s: float) -> bool:
        """Wait for a ring of any of ``names``; False when the time is up."""
        ring = asyncio.Event()
        mine = tuple(names)
        for name in mine:
            if name not in self._waiters:
                self._waiters[name] = {}
                self.changed.set()
            self._waiters[name][ring] = None
        try:
            await asyncio.wait_for(ring.wait(), timeout_s)
        except TimeoutError:
            return ring.is_set()
        except asyncio.CancelledError:
            if ring.is_set():
                for name in mine:
                    self.ring_one(name)
            raise
        finally:
            for name in mine:
                self._waiters.get(name, {}).pop(ring, None)
                if not self._waiters.get(name):
                    self._waiters.pop(name, None)
        return True

    def ring_one(self, name: str) -> bool:
        """Wake who waits longest; False when nobody does."""
        for ring in self._waiters.get(name, ()):
            if not ring.is_set():
                ring.set()
                return True
        return False

    def ring_all(self, names: Sequence[str] | None = None) -> None:
        """Wake everybody who waits for ``names``, or for anything."""
        for name in list(self._waiters) if names is None else names:
            for ring in self._waiters.get(name, ()):
                ring.set()


class WorkBells(Bells):
    """Ring when a device class may have work."""

    def __init__(self, broker: Broker) -> None:
        super().__init__()
        self._broker = broker
        self._control = secrets.token_hex(8)
        self._blocked_on: frozenset[str] = frozenset()

    async def run(self) -> None:
        """Block on the broker for everybody who waits here."""
        poker = asyncio.create_task(self._poke())
        try:
            while True:
                try:
                    await self._turn()
                except BrokerUnavailable:
                    await asyncio.sleep(_RETRY_S)
        finally:
            poker.cancel()

    async def _turn(self) -> None:
        names = self.names()
        if not names:
            self._blocked_on = frozenset()
            await self.changed.wait()
            self.changed.clear()
            return
        self._blocked_on = frozenset(names)
        name = await self._broker.wait_for_work(names, self._control)
        if name is None or name.startswith("@"):
            return
        if not self.ring_one(name):
            # Whoever waited has gone since; the token is for another server's workers.
            await self._broker.wake(name)

    async def _poke(self) -> None:
        """Interrupt the blocked call when somebody waits for a name that it does not cover."""
        while True:
            await self.changed.wait()
            self.changed.clear()
            if not self._blocked_on.issuperset(self.names()):
                try:
                    await self._broker.poke(self._control)
                except BrokerUnavailable:
                    await asyncio.sleep(_RETRY_S)


class BatchBells(Bells):
    """Ring when a task of a batch has ended."""

    def __init__(self, broker: Broker) -> None:
        super().__init__()
        self._broker = broker

    async def run(self) -> None:
        """Pass on what the broker announces."""
        while True:
            try:
                async for batch in self._broker.finished():
                    self.ring_all([batch])
            except BrokerUnavailable:
                await asyncio.sleep(_RETRY_S)


async def reap_forever(broker: Broker, every_s: float, lease_s: float) -> None:
    """End what is overdue, for as long as the server runs.

    Nobody could extend a lease while there was no server or no broker. So the first round comes a
    lease later, and again after the broker was away: workers that live say so before.
    """
    pause_s = lease_s
    while True:
        await asyncio.sleep(pause_s)
        pause_s = every_s
        try:
            late, expired, old = await broker.reap(REAP_LIMIT)
        except BrokerUnavailable:
            await _until_back(broker)
            pause_s = lease_s
            continue
        if late or expired:
            log.info("reaped", extra={"deadlines": late, "leases": expired})
        if max(late, expired, old) >= REAP_LIMIT:
            pause_s = 0.0


async def _until_back(broker: Broker) -> None:
    while True:
        await asyncio.sleep(_RETRY_S)
        try:
            await broker.ping()
        except BrokerUnavailable:
            continue
        return
