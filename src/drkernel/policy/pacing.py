"""How fast requests leave: so many at once, so many requests and tokens a minute, and breaks.

All callers of one endpoint share a `Pacer`. When the endpoint says "wait" to one of them, all wait.
Times come from ``clock`` and pass with ``sleep``, so that tests need no real ones.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable

from drkernel.policy.settings import LimitSettings

Clock = Callable[[], float]
Sleep = Callable[[float], Awaitable[None]]
_MINUTE_S = 60.0


class Bucket:
    """A budget that refills evenly: ``per_minute`` units, at most a minute's worth at once."""

    def __init__(self, per_minute: float, clock: Clock) -> None:
        self._rate = per_minute / _MINUTE_S
        self._full = per_minute
        self._level = per_minute
        self._clock = clock
        self._seen = clock()

    def wait_s(self, amount: float) -> float:
        """Seconds until ``amount`` may be taken; more than a bucketful counts as a bucketful."""
        now = self._clock()
        self._level = min(self._full, self._level + (now - self._seen) * self._rate)
        self._seen = now
        return max(0.0, (min(amount, self._full) - self._level) / self._rate)

    def take(self, amount: float) -> None:
        """Take it; the level may fall below zero."""
        self._level -= amount


class Pacer:
    """Lets requests go when they may."""

    def __init__(
        self, limits: LimitSettings, clock: Clock = time.monotonic, sleep: Sleep = asyncio.sleep
    ) -> None:
        self._clock, self._sleep = clock, sleep
        self._slots = asyncio.Semaphore(limits.concurrency)
        self._turnstile = asyncio.Lock()
        self._free_at = clock()
        self._requests = self._bucket(limits.requests_per_minute)
        self._tokens = self._bucket(limits.tokens_per_minute)

    def _bucket(self, per_minute: float | None) -> Bucket | None:
        return None if per_minute is None else Bucket(per_minute, self._clock)

    def hold(self, seconds: float) -> None:
        """Let nothing go for so long."""
        self._free_at = max(self._free_at, self._clock() + seconds)

    @contextlib.asynccontextmanager
    async def slot(self, tokens: int) -> AsyncIterator[None]:
        """Wait until a request of about ``tokens`` tokens may go; one slot while it runs."""
        async with self._slots:
            async with self._turnstile:
                while (wait_s := self._wait_s(tokens)) > 0:
                    await self._sleep(wait_s)
                if self._requests:
                    self._requests.take(1)
                if self._tokens:
                    self._tokens.take(tokens)
            yield

    def settle(self, reserved: int, used: int) -> None:
        """Correct a reservation once the tokens are known."""
        if self._tokens:
            self._tokens.take(used - reserved)

    def _wait_s(self, tokens: int) -> float:
        return max(
            self._free_at - self._clock(),
            self._requests.wait_s(1) if self._requests else 0.0,
            self._tokens.wait_s(tokens) if self._tokens else 0.0,
        )
