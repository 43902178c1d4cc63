"""What is told about a GPU beside a result."""

import asyncio
import os
import subprocess
import sys
import time

import pytest

from kernelgym.errors import ServiceError
from kernelgym.worker.conditions import Conditions, is_ours
from kernelgym.worker.gpu import GpuFacts


def facts(index=0, *, sm=1980, throttle=("idle",), processes=()):
    return GpuFacts(index, "G", "GPU-1", "580", 10, 1, sm, 3201, throttle, processes)


async def test_what_was_seen_around_an_evaluation():
    answers = [
        [facts(sm=345)],
        [facts(sm=1980), facts(1, sm=1, throttle=("power cap",))],
        [facts(sm=1700, throttle=("power cap", "idle"), processes=(os.getpid(), 1))],
    ]
    conditions = Conditions(0, ask=lambda: answers.pop(0))
    assert conditions.since(0.0) == {}
    await conditions.look()
    await conditions.look()
    started = time.monotonic()
    assert conditions.since(started)["sm_clock_mhz"] == "1980"
    assert conditions.since(started)["throttle"] == "none"
    await conditions.look()
    assert conditions.since(started) == {
        "sm_clock_mhz": "1700-1980",
        "memory_clock_mhz": "3201",
        "throttle": "power cap",
        "foreign_processes": "1",
    }


async def test_a_gpu_that_does_not_answer_stops_nobody():
    asked = []

    def ask():
        asked.append(1)
        raise ServiceError("NVML did not answer")

    conditions = Conditions(0, every_s=0.01, ask=ask)
    conditions.start()
    while len(asked) < 3:
        await asyncio.sleep(0.01)
    await conditions.stop()
    assert conditions.since(0.0) == {}


@pytest.mark.parametrize("depth", [1, 2])
def test_descendants_are_ours(depth):
    code = "import subprocess, sys; print(subprocess.os.getpid(), flush=True); sys.stdin.read()"
    if depth == 2:
        code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {code!r}])"
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    pid = int(child.stdout.readline())
    assert is_ours(pid)
    assert not is_ours(1)
    assert not is_ours(os.getppid())
    child.communicate()
    assert not is_ours(pid)
