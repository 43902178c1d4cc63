"""The state of a GPU while evaluations ran on it: clocks, reasons for lower ones, other processes.

Asked for now and then, in a child (`kernelgym.worker.gpu`), because NVML may hang; an evaluation
gets what was seen around it. A GPU that does not answer gives no facts and stops nobody: its health
is watched elsewhere (`kernelgym.worker.health`).
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress

from kernelgym.errors import ServiceError
from kernelgym.worker import gpu
from kernelgym.worker.gpu import GpuFacts

EVERY_S = 15.0
_KEPT = 64


class Conditions:
    """Looks at one GPU as long as it runs."""

    def __init__(
        self,
        index: int,
        *,
        every_s: float = EVERY_S,
        ask: Callable[[], Sequence[GpuFacts]] = gpu.facts,
    ) -> None:
        """``ask`` returns facts about all GPUs."""
        self._index, self._every_s, self._ask = index, every_s, ask
        self._seen: deque[tuple[float, GpuFacts, int]] = deque(maxlen=_KEPT)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin, in the running event loop."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """End."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _run(self) -> None:
        while True:
            with suppress(ServiceError, OSError, ValueError):
                await self.look()
            await asyncio.sleep(self._every_s)

    async def look(self) -> None:
        """Once, now."""
        for facts in await asyncio.to_thread(self._ask):
            if facts.index == self._index:
                foreign = sum(not is_ours(pid) for pid in facts.processes)
                self._seen.append((time.monotonic(), facts, foreign))

    def since(self, started: float) -> dict[str, str]:
        """What was seen from the last look before ``started`` (monotonic) on, as flags of a result.

        Empty when nothing was.
        """
        looks = list(self._seen)
        first = max((i for i, look in enumerate(looks) if look[0] <= started), default=0)
        looks = looks[first:]
        if not looks:
            return {}
        facts = [found for _, found, _ in looks]
        slowed = sorted({reason for found in facts for reason in found.slowed})
        return {
            "sm_clock_mhz": _span([found.sm_clock_mhz for found in facts]),
            "memory_clock_mhz": _span([found.memory_clock_mhz for found in facts]),
            "throttle": ", ".join(slowed) or "none",
            "foreign_processes": str(max(foreign for _, _, foreign in looks)),
        }


def _span(values: Sequence[int]) -> str:
    low, high = min(values), max(values)
    return str(low) if low == high else f"{low}-{high}"


def is_ours(pid: int) -> bool:
    """Whether a process is this one or descends from it."""
    own = os.getpid()
    while pid > 1:
        if pid == own:
            return True
        pid = _parent(pid)
    return False


def _parent(pid: int) -> int:
    """0 for a process that is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return 0
