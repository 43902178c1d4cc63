"""A worker of a fault run that really judges, on the CPU. Order as JSON on stdin."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from logging_link import work

from kernelgym.sandbox import jail
from kernelgym.worker.host import EvaluationHost
from kernelgym.worker.seat import Seat


async def main(order: dict[str, Any]) -> None:
    """Work until SIGTERM."""
    jail.sweep()  # what a worker left that was killed
    slots = order.get("slots", 1)
    seat = Seat(
        "cpu",
        classes=("cpu",),
        slots=slots + 1,  # one waits in its hands for its turn
        evaluator=lambda: EvaluationHost(fallback=True, concurrency=slots),
    )
    await work(order, [seat])


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.stdin.read())))
