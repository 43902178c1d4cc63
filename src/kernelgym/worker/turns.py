"""How many evaluations run at once, and how one is repeated with nothing beside it.

On a GPU the memory that other evaluations and idle judges hold can make a candidate run out. That
is not the candidate's fault, so it gets one more try alone (`blames_neighbours`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from kernelgym.schema import EvalResult, Outcome

CROWDED = 0.25
"""Part of the GPU's memory that others must hold before they are to blame."""
_NO_ROOM = frozenset({"reference_does_not_fit", "judge_out_of_memory"})


class Turns:
    """So many at once."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._free = asyncio.Semaphore(count)
        self._gathering = asyncio.Lock()

    @asynccontextmanager
    async def one(self) -> AsyncIterator[None]:
        """A turn beside others."""
        async with self._free:
            yield

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """All turns; whoever asks must hold none."""
        async with self._gathering:  # or two would wait for each other's turns
            taken = 0
            try:
                for _ in range(self._count):
                    await self._free.acquire()
                    taken += 1
                yield
            finally:
                for _ in range(taken):
                    self._free.release()


def ran_out(result: EvalResult) -> bool:
    """Whether memory decided the outcome."""
    failure = result.failure
    code = failure.code if failure is not None else ""
    return result.outcome is Outcome.OUT_OF_MEMORY or code in _NO_ROOM


def blames_neighbours(result: EvalResult, used_bytes: int, total_bytes: int) -> bool:
    """Whether it should be tried again alone; ``used_bytes``: what others hold now."""
    return ran_out(result) and total_bytes > 0 and used_bytes > CROWDED * total_bytes
