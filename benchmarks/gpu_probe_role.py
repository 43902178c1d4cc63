"""Role of a zygote: what a jailed process can do with the GPU, told step by step over a pipe."""

import json
import os
import time
from collections.abc import Callable
from typing import Any


def main(fd: int) -> None:
    """cuInit, context, torch, Triton; JSON into ``fd``."""
    found = {"uid": os.getuid(), "right": False, "steps_ms": {}}
    try:
        if os.environ.get("PROBE") == "dry":
            found["right"] = True
        else:
            steps(found)
            found["right"] = True
    except BaseException as error:  # noqa: BLE001 - a probe tells whatever went wrong
        found["error"] = f"{type(error).__name__}: {error}"[:1000]
    os.write(fd, json.dumps(found).encode())
    os.close(fd)


def steps(found: dict) -> None:
    import torch

    from kernelgym.cuda import device
    from kernelgym.cuda.driver import driver
    from kernelgym.cuda.kernels import Kernels
    from kernelgym.cuda.page import DevicePage
    from kernelgym.cuda.vmm import VmmPool
    from kernelgym.trace.cupti import Cupti

    def step(name: str, work: Callable[[], Any]) -> Any:
        started = time.perf_counter()
        value = work()
        found["steps_ms"][name] = round((time.perf_counter() - started) * 1e3, 2)
        return value

    step("cuInit and context", lambda: device.activate(driver()))
    step("torch", device.start_torch)
    square = step("allocation", lambda: torch.ones(64, 64, device="cuda"))
    step("matmul", lambda: (square @ square).sum().item())
    pool = step("pool", lambda: VmmPool(driver(), 1 << 20))
    step("export", pool.fileno)
    step("kernels from PTX", lambda: Kernels(driver()).tick(0))
    step("page", lambda: DevicePage(driver()))
    step("cupti", Cupti)
    torch.cuda.synchronize()
