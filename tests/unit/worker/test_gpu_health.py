"""The canary's callers: a driver that hangs, fails, lies or is not there."""

from __future__ import annotations

import sys
import time

import pytest

from kernelgym.worker.canary import device_class
from kernelgym.worker.health import find_gpus, gpu_trouble


def program(code: str) -> list[str]:
    return [sys.executable, "-c", code]


async def test_hung_driver_costs_the_deadline_and_no_more() -> None:
    started = time.monotonic()
    hang = program("import signal, time; signal.signal(15, 1); time.sleep(600)")
    assert "did not end within 0.3 s" in await gpu_trouble(0, hang, deadline_s=0.3)
    assert await find_gpus(hang, deadline_s=0.3) == []
    assert time.monotonic() - started < 60


async def test_failing_canary_is_quoted() -> None:
    fail = program("import sys; sys.exit('cuInit: CUDA_ERROR_UNKNOWN (999)')")
    assert "CUDA_ERROR_UNKNOWN" in await gpu_trouble(0, fail)
    assert await gpu_trouble(0, program("import sys; sys.exit(3)")) == (
        "the canary failed: exit status 3"
    )
    assert await gpu_trouble(0, program("")) == ""


async def test_gpus_are_what_the_canary_lists() -> None:
    listed = (
        '[{"index": 0, "model": "NVIDIA H200", "device_class": "h200", "uuid": "GPU-1", "x": 1}]'
    )
    [gpu] = await find_gpus(program(f"print({listed!r})"))
    assert (gpu.index, gpu.device_class, gpu.uuid) == (0, "h200", "GPU-1")


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("NVIDIA H200", "h200"),
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA A100-SXM4-80GB", "a100"),
        ("NVIDIA GeForce RTX 4090", "geforce-rtx-4090"),
        ("Tesla T4", "t4"),
        ("NVIDIA L40S", "l40s"),
        ("NVIDIA GB200", "gb200"),
    ],
)
def test_class_of_a_gpu(model: str, expected: str) -> None:
    assert device_class(model) == expected
