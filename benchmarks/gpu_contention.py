"""What each call of the driver costs while other processes make and drop contexts.

    python benchmarks/gpu_contention.py --out DIR [--makers 0,4,8] [--seconds 2] [--dry-run]

Whatever waits here must not be called under the gate. One process repeats every call below for a
while, alone and beside ``makers`` processes that each make a primary context, start torch, and die;
the result holds median, 95th percentile and worst in us. Result: ``DIR/gpu_contention.json``.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))  # where it is not installed

import record
from gpu_world import World, spread

MAKER = """
import os, sys, time
sys.path[:0] = sys.argv[1].split(':')
os.environ.setdefault('CUDA_DEVICE_MAX_CONNECTIONS', '1')
import torch
from kernelgym.cuda import device
while True:
    pid = os.fork()
    if pid == 0:
        if sys.argv[2] == 'gpu':
            device.use()
        os._exit(0)
    os.waitpid(pid, 0)
"""


def calls(world: World) -> dict[str, Callable[[], object]]:
    """Name to what is timed."""
    import torch

    from kernelgym.cuda.kernels import Kernels
    from kernelgym.cuda.page import DevicePage
    from kernelgym.cuda.snapshot import Snapshot, Window
    from kernelgym.cuda.vmm import VmmPool

    driver, bench = world.driver, world.bench()
    stream = driver.stream()
    pool, taker = VmmPool(driver, 4 << 20), Snapshot(driver)
    device = pool.flat.device
    tensor = torch.ones(1 << 20, device=device)

    def tick() -> None:
        bench.kernels.tick(stream)
        driver.call("cuStreamSynchronize", stream)

    def allocate() -> None:
        driver.call("cuMemFree", driver.call("cuMemAlloc", 64 << 20))

    def share() -> None:
        VmmPool(driver, 4 << 20).close()

    found: dict[str, Callable[[], object]] = {
        "tick and wait": tick,
        "torch add and wait": lambda: (tensor.add_(1), world.settle()),
        "torch empty, cached": lambda: torch.empty(1 << 20, device=device),
        "reset persisting lines": bench.flush.forget_persisting,
        "flush and wait": lambda: (bench.flush.queue(stream, forget=False), world.settle()),
        "copy to the host": lambda: taker.take(pool.address, [Window(0, 4096)]),
        "allocate and free": allocate,
        "pool": share,
        "page": lambda: DevicePage(driver).close(),
        "kernels": lambda: Kernels(driver).close(),
        "free memory": lambda: driver.call("cuMemGetInfo"),
    }
    if not world.dry_run:
        found |= _profiler()
    return found


def _profiler() -> dict[str, Callable[[], object]]:
    from kernelgym.trace.attribution import Tracer
    from kernelgym.trace.cupti import Cupti

    tracer = Tracer(Cupti())
    return {"profiler on and off": lambda: (tracer.start(), tracer.stop())}


def measure(todo: dict[str, Callable[[], object]], seconds: float) -> dict[str, dict]:
    """Each call again and again, in turn, for so many seconds."""
    taken: dict[str, list[float]] = {name: [] for name in todo}
    for call in todo.values():
        call()
    ends = time.monotonic() + seconds
    while time.monotonic() < ends or not all(taken.values()):
        for name, call in todo.items():  # in turn, so that all see the same neighbours
            started = time.perf_counter_ns()
            call()
            taken[name].append((time.perf_counter_ns() - started) / 1e3)
    return {name: {"n": len(values), **spread(values)} for name, values in taken.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", default=os.environ.get("OUT", "gpu-contention"))
    parser.add_argument("--makers", default="0,4,8")
    parser.add_argument("--seconds", type=float, default=4.0, help="for each number of makers")
    parser.add_argument("--dry-run", action="store_true")
    arguments = parser.parse_args()
    os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "1")
    world = World(arguments.dry_run)
    todo, found = calls(world), {}
    for makers in map(int, arguments.makers.split(",")):
        mode = "dry" if arguments.dry_run else "gpu"
        paths = ":".join(filter(None, sys.path))
        command = [sys.executable, "-c", MAKER, paths, mode]
        started = [subprocess.Popen(command) for _ in range(makers)]
        try:
            time.sleep(8.0 if makers and not arguments.dry_run else 0.0)  # until torch is imported
            found[str(makers)] = measure(todo, arguments.seconds)
        finally:
            for maker in started:
                maker.kill()
                maker.wait()
    body = {"dry_run": arguments.dry_run, "us_by_makers": found}
    record.write(Path(arguments.out) / "gpu_contention.json", "gpu_contention", body)
    for name in next(iter(found.values())):
        times = [f"{found[m][name]['p50']:9.1f} {found[m][name]['p95']:9.1f}" for m in found]
        print(f"{name:<24}", " | ".join(times))
    return 0


if __name__ == "__main__":
    sys.exit(main())
