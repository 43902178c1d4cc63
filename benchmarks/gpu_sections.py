"""The sections of `gpu_first_run.py`: lists of steps, each a function that returns data."""

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial

import gpu_clocks as clocks
import gpu_evaluations
import gpu_jail
from gpu_world import World, spread, timed

Step = tuple[str, Callable[[], object]]


def steps(section: str, *, dry_run: bool) -> Iterator[Step]:
    """Names and functions of a section."""
    world = World(dry_run)
    if section == "machine":
        yield "facts", machine
    elif section == "driver":
        yield "device", world.device
        yield "pool", partial(pool, world)
        yield "page", partial(page, world)
        yield "kernels", partial(kernels, world)
        yield "snapshot", partial(snapshot, world)
    elif section == "share":
        yield "two processes", partial(share, world)
    elif section == "cupti":
        yield "library", clocks.cupti_library
        yield "ground truth", partial(clocks.cupti_truth, world)
    elif section == "armed":
        yield "empty", partial(clocks.armed_empty, world)
        for spin_us in clocks.SPINS_US[:2] if dry_run else clocks.SPINS_US:
            yield f"spin {spin_us} us", partial(clocks.armed_spin, world, spin_us)
        yield "copy", partial(clocks.armed_copy, world)
        yield "parked streams", partial(clocks.parked, world)
    elif section == "identity":
        yield "own, library, inductor, graph", partial(clocks.identity, world)
    elif section == "jail":
        yield from gpu_jail.steps(dry_run)
    else:
        yield from gpu_evaluations.steps(section, dry_run)


def machine() -> dict:
    import record
    from kernelgym.worker import gpu

    found = {"machine": record.machine(), "gpus": [vars(item) for item in gpu.facts()]}
    packages = ("torch", "triton", "cuda-bindings", "nvidia-cuda-cupti")
    return found | {"versions": record.versions(*packages)}


def pool(world: World) -> dict:
    import torch

    from kernelgym.cuda.vmm import VmmPool, granularity
    from kernelgym.sandbox.pool import place_dense, view, write

    found = {"granularity": granularity(world.driver)}
    for size in (2 << 20, 512 << 20) if not world.dry_run else (2 << 20,):
        create_ms, ours = timed(partial(VmmPool, world.driver, size))
        export_ms, fd = timed(ours.fileno)
        import_ms, theirs = timed(partial(VmmPool, world.driver, size, os.dup(fd)))
        values = [torch.randn(64, 64, device=ours.flat.device).to(t) for t in DTYPES]
        layouts, _ = place_dense(values)
        write(ours.flat, layouts, values)
        world.settle()
        pairs = zip(layouts, values, strict=True)
        same = [bool((view(theirs.flat, layout) == value).all()) for layout, value in pairs]
        close_ms, _ = timed(theirs.close)
        ours.close()
        found[f"{size >> 20} MiB"] = {
            "create_ms": create_ms, "export_ms": export_ms, "import_ms": import_ms,
            "close_ms": close_ms, "right": all(same),
        }  # fmt: skip
        if not all(same):
            raise AssertionError(found)
    return found


def _dtypes() -> tuple:
    import torch

    return (torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.bool, torch.float64)


DTYPES = _dtypes()


def page(world: World) -> dict:
    from kernelgym.cuda.page import DevicePage, Slot

    ours = DevicePage(world.driver)
    ours.wait(0, Slot.FLAG, 1)
    ours.write(0, Slot.END, 1)
    time.sleep(0.05)
    early = ours.read(Slot.END)
    ours.set(Slot.FLAG, 1)
    started = time.perf_counter_ns()
    seen = ours.poll(Slot.END, 1, started + int(2e9))
    world.settle()
    ours.close()
    if early:
        raise AssertionError("the stream did not wait")
    return {"flag_to_mark_us": (seen - started) / 1e3}


def kernels(world: World) -> dict:
    bench = world.bench()
    stream = world.driver.stream()
    ticks = []
    for _ in range(200):
        ms, _ = timed(lambda: (bench.kernels.tick(stream), world.settle()))
        ticks.append(ms * 1e3)
    spins = {}
    for spin_us in (100, 1000):
        ms, _ = timed(lambda us=spin_us: (bench.kernels.spin(stream, us * 1000), world.settle()))
        spins[spin_us] = ms * 1e3
    bench.close()
    return {"tick_us": spread(ticks), "spin_us": spins}


def snapshot(world: World) -> dict:
    from kernelgym.cuda.snapshot import Snapshot, draw_windows
    from kernelgym.cuda.vmm import VmmPool

    ours, taker = VmmPool(world.driver, 8 << 20), Snapshot(world.driver)
    ours.flat.fill_(0x5A)
    world.settle()
    windows = draw_windows([(0, 8 << 20)], random.Random(1))
    times = []
    for _ in range(50):
        ms, parts = timed(partial(taker.take, ours.address, windows))
        times.append(ms * 1e3)
    right = all(part == b"\x5a" * len(part) for part in parts)
    taker.close()
    ours.close()
    if not right:
        raise AssertionError("a snapshot differs")
    return {"take_us": spread(times), "windows": len(windows)}


SHARE_CHILD = """
import socket, sys
sys.path[:0] = sys.argv[2].split(':')
import gpu_world
from kernelgym.cuda.vmm import VmmPool
world = gpu_world.World(sys.argv[3] == 'dry')
sock = socket.socket(fileno=int(sys.argv[1]))
_, fds, _, _ = socket.recv_fds(sock, 1, 1)
pool = VmmPool(world.driver, 4 << 20, fds[0])
assert pool.flat[:4].tolist() == [1, 2, 3, 4], pool.flat[:4].tolist()
pool.flat[:4] = 9
world.settle()
sock.send(b'k')
sock.recv(1)
"""


def share(world: World) -> dict:
    """A pool in another process, and the memory after that process is gone."""
    import socket

    import torch

    from kernelgym.cuda.vmm import VmmPool

    ours, (left, right) = VmmPool(world.driver, 4 << 20), socket.socketpair()
    values = torch.tensor([1, 2, 3, 4], dtype=torch.uint8, device=ours.flat.device)
    ours.flat[:4] = values
    world.settle()
    paths = ":".join(filter(None, sys.path))
    mode = "dry" if world.dry_run else "gpu"
    command = [sys.executable, "-c", SHARE_CHILD, str(right.fileno()), paths, mode]
    child = subprocess.Popen(command, pass_fds=[right.fileno()])
    socket.send_fds(left, [b"x"], [ours.fileno()])
    left.settimeout(50)
    answered = left.recv(1)
    seen = ours.flat[:4].tolist()
    left.send(b"q")
    code = child.wait(20)
    after = ours.flat[:4].tolist()
    ours.close()
    if (answered, seen, after, code) != (b"k", [9] * 4, [9] * 4, 0):
        raise AssertionError((answered, seen, after, code))
    return {"right": True}
