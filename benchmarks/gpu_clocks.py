"""Clocks and records of `gpu_first_run.py`: marks, events and CUPTI against known lengths."""

import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpu_world import World, spread, timed

SPINS_US = (10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
Call = Callable[[int], object]
KERNEL = """
import triton, triton.language as tl
@triton.jit
def scale_kernel(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)
"""


def cupti_library() -> dict:
    import ctypes

    from kernelgym.trace import cupti

    library = cupti.load_library()
    version = ctypes.c_uint32()
    library.cuptiGetVersion(ctypes.byref(version))
    return {"path": library._name, "version": version.value, "searched": cupti.library_paths()}


def cupti_truth(world: World) -> dict:
    """Spin kernels of known length: CUPTI within 2% from 20 us on; the canary is seen."""
    if world.dry_run:
        return {"skipped": "no GPU"}
    from kernelgym.trace.attribution import Tracer
    from kernelgym.trace.cupti import Cupti

    start_ms, cupti = timed(Cupti)
    tracer, bench = Tracer(cupti), world.bench()
    found = {"start_ms": start_ms}
    for spin_us in SPINS_US:
        tracer.start()
        bench.kernels.tick(0)
        for _ in range(5):
            bench.kernels.spin(0, spin_us * 1000)
        world.settle()
        records = tracer.stop()
        spans = [r.activity for r in records if r.activity.name == "kernelgym_spin"]
        times = [(a.end_ns - a.start_ns) / 1e3 for a in spans]
        found[f"{spin_us} us"] = {
            "records": len(records), "tick": any("tick" in r.activity.name for r in records),
            "median_us": statistics.median(times) if times else None, "lost": tracer.lost,
        }  # fmt: skip
    bench.close()
    return found


def _shoot(world: World, bench: Any, value: int, calls: int, call: Call) -> dict:
    from kernelgym.cuda import armed
    from kernelgym.judge.brackets import watch

    queued = armed.queue(bench, value, calls, call)
    lead, body, tail = watch(bench.page, value, 5.0, lambda: True)
    return {"lead": lead, "body": body, "tail": tail, "event": queued.microseconds()}


def _series(world: World, bench: Any, calls: int, call: Call, count: int, first: int) -> dict:
    rows = [_shoot(world, bench, first + i, calls, call) for i in range(count)]
    return {key: spread([row[key] for row in rows]) for key in rows[0]}


def armed_empty(world: World) -> dict:
    bench = world.bench()
    found = _series(world, bench, 0, lambda _: None, 60 if not world.dry_run else 3, 1)
    bench.close()
    return found


def armed_spin(world: World, spin_us: int) -> dict:
    """Marks, events and CUPTI against a kernel of known length, at several K."""
    bench, found, value = world.bench(), {}, 1
    stream = world.driver.stream()
    call = lambda _: bench.kernels.spin(stream, spin_us * 1000)  # noqa: E731
    for calls in (1, 2, 4, 8) if spin_us < 100 else (1, 2):
        count = 3 if world.dry_run else 20
        found[f"K={calls}"] = _series(world, bench, calls, call, count, value)
        value += 1000
    bench.close()
    return found


def armed_copy(world: World) -> dict:
    """A copy kernel of known traffic, against the bandwidth that the device claims."""
    size = 1 << 20 if world.dry_run else 1 << 30
    bench, facts = world.bench(), world.device()
    source, target = (int(world.driver.call("cuMemAlloc", size)) for _ in range(2))
    stream = world.driver.stream()
    call = lambda _: bench.kernels.copy(stream, target, source, size)  # noqa: E731
    found = _series(world, bench, 1, call, 3 if world.dry_run else 20, 1)
    bench.close()
    for address in (source, target):
        world.driver.call("cuMemFree", address)
    found["bytes_per_s"] = 2 * size / (found["event"]["p50"] / 1e6)
    return found | {"peak_bytes_per_s": facts["peak_bytes_per_s"]}


def parked(world: World) -> dict:
    """With one connection a parked stream must hold back every other stream of its context."""
    if world.dry_run:
        return {"skipped": "no GPU"}
    import torch

    from kernelgym.cuda.page import Slot

    bench, event, other = world.bench(), torch.cuda.Event(), torch.cuda.Stream()
    bench.page.wait(world.driver.stream(), Slot.FLAG, 1)
    with torch.cuda.stream(other):
        bench.kernels.tick(other.cuda_stream)
        event.record()
    time.sleep(0.05)
    ran_ahead = event.query()
    bench.page.set(Slot.FLAG, 1)
    world.settle()
    bench.close()
    return {"other_stream_ran_ahead": ran_ahead, "connections": os.environ.get(
        "CUDA_DEVICE_MAX_CONNECTIONS")}  # fmt: skip


def identity(world: World) -> dict:
    """Own kernel, library kernel, Inductor's kernel, graph node: whose does each come out as?"""
    if world.dry_run:
        return {"skipped": "no GPU"}
    import tempfile

    import torch

    from kernelgym.sandbox.loader import load
    from kernelgym.trace import launches
    from kernelgym.trace.attribution import Tracer
    from kernelgym.trace.cupti import Cupti
    from kernelgym.trace.recorder import Recorder

    world.settle()
    recorder = Recorder(os.open(os.devnull, os.O_WRONLY))
    launches.hook_compiled(recorder)
    tracer = Tracer(Cupti(), recorder)
    loaded = load(KERNEL.encode(), Path(tempfile.mkdtemp()), recorder.own)
    kernel = loaded.module.scale_kernel
    x = torch.randn(1 << 20, device="cuda")
    y, square = torch.empty_like(x), x.view(1024, 1024)
    fused = torch.compile(lambda t: torch.relu(t) * 3 + 1)
    call = lambda: kernel[(1024,)](x, y, 1 << 20, B=1024)  # noqa: E731
    (call(), fused(x), square @ square)
    graph = torch.cuda.CUDAGraph()
    world.settle()
    with torch.cuda.graph(graph):
        call()
    found = {}
    cases = {
        "own": call, "library": lambda: square @ square, "inductor": lambda: fused(x),
        "graph": graph.replay, "copy": lambda: y.copy_(x), "fill": lambda: y.zero_(),
    }  # fmt: skip
    for name, work in cases.items():
        tracer.start()
        work()
        world.settle()
        found[name] = [(r.activity.name[:60], r.own, r.how) for r in tracer.stop()]
    expected = {"own": True, "library": False, "inductor": False, "graph": True}
    wrong = [n for n, own in expected.items() if {row[1] for row in found[n]} != {own}]
    if wrong:
        raise AssertionError(f"{wrong}: {found}")
    return found
