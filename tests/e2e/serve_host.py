"""A host in a process of its own: a submission a line on stdin, a result a line on stdout.

The argument is a jail level; ``:impatient`` after it gives references five seconds and 256 MiB.
Run through ``tests/jail/world.py``, it shows what comes out where only one kind of jail can be had.
"""

from __future__ import annotations

import asyncio
import sys

from kernelgym.schema import Submission
from kernelgym.worker.host import EvaluationHost


async def serve(level: str, flavour: str) -> None:
    limits = {"reference_timeout_s": 5.0, "judge_memory_mb": 256} if flavour else {}
    async with EvaluationHost(jail_level=level, **limits) as host:
        print("ready", flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            result = await host.evaluate(Submission.model_validate_json(line))
            print(result.model_dump_json(), flush=True)
    print("closed", flush=True)


if __name__ == "__main__":
    level, _, flavour = sys.argv[1].partition(":")
    asyncio.run(serve(level, flavour))
