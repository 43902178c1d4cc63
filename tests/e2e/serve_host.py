"""A host in a process of its own: submissions as JSON lines on stdin, results likewise on stdout.

Lines carry an id, because several evaluations run at a time and end as they like. The argument is a
jail level; ``:impatient`` after it gives references five seconds and 256 MiB. Run through
``tests/jail/world.py``, it shows what comes out where only one kind of jail can be had.
"""

from __future__ import annotations

import asyncio
import json
import sys

from kernelgym.schema import Submission
from kernelgym.worker.host import EvaluationHost

AT_A_TIME = 3
"""More than the cores of a small machine: many cases mostly wait."""


async def serve(level: str, flavour: str) -> None:
    limits = {"reference_timeout_s": 5.0, "judge_memory_mb": 256} if flavour else {}
    async with EvaluationHost(jail_level=level, concurrency=AT_A_TIME, **limits) as host:

        async def answer(number: int, asked: dict) -> None:
            result = await host.evaluate(Submission.model_validate(asked))
            print(json.dumps({"id": number, "result": result.model_dump(mode="json")}), flush=True)

        print("ready", flush=True)
        async with asyncio.TaskGroup() as tasks:
            while line := await asyncio.to_thread(sys.stdin.readline):
                request = json.loads(line)
                tasks.create_task(answer(request["id"], request["submission"]))
    print("closed", flush=True)


if __name__ == "__main__":
    level, _, flavour = sys.argv[1].partition(":")
    asyncio.run(serve(level, flavour))
