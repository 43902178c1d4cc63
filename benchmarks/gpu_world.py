"""What the sections of `gpu_first_run.py` share: the driver or its stand-in, times, quantiles."""

import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent


class World:
    """The driver, or its stand-in."""

    def __init__(self, dry_run: bool) -> None:
        self.dry_run = dry_run
        self._driver: Any = None

    @property
    def driver(self) -> Any:
        if self._driver is None and self.dry_run:
            sys.path.insert(0, str(ROOT / "tests" / "unit" / "cuda"))
            from cuda_standin import StandInDriver

            self._driver = StandInDriver()
        elif self._driver is None:
            from kernelgym.cuda.device import start_torch
            from kernelgym.cuda.driver import driver

            os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "1")
            self._driver = driver()
            self.device()
            start_torch()
        return self._driver

    def device(self) -> dict:
        from kernelgym.cuda import device

        return asdict(device.activate(self._driver if self._driver is not None else self.driver))

    def bench(self) -> Any:
        from kernelgym.cuda.armed import Bench

        return Bench.make(self.driver, self.device()["l2_bytes"])

    def settle(self) -> None:
        self.driver.call("cuCtxSynchronize")


def timed(work: Callable[[], object]) -> tuple[float, object]:
    started = time.perf_counter()
    value = work()
    return round((time.perf_counter() - started) * 1e3, 3), value


def spread(values: list[float]) -> dict:
    ordered = sorted(values)
    pick = lambda q: round(ordered[min(len(ordered) - 1, int(q * len(ordered)))], 3)  # noqa: E731
    return {"p05": pick(0.05), "p50": pick(0.5), "p95": pick(0.95), "max": pick(1.0)}
