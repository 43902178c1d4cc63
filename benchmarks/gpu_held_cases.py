"""Ways to give the GPU work beside a parked stream, for ``gpu_second_context.py``.

Each case parks the default stream at a flag, submits something by another way, looks for up to
30 ms whether that has run although nobody has raised the flag, raises it, and waits for everything.
A submission that itself waits for the parked stream is set free by a timer and marked ``late``.
"""

import ctypes
import threading
import time
from collections.abc import Callable
from typing import Any

WAIT_S = 0.03
LATE_S = 0.4


class Bed:
    """Parks, tries, raises; one value higher each time."""

    def __init__(self, child: Any) -> None:
        from kernelgym.cuda.page import Slot

        self.child, self.slot = child, Slot
        self.torch, self.driver, self.page = child.torch, child.driver, child.page
        self.kernels, self.value = child.kernels, 0

    def parked(self, submit: Callable[[], Callable[[], bool]], before: bool = False) -> dict:
        """Whether what ``submit`` started is done (as its answer says) while the flag is down.

        ``before``: it is submitted ahead of the park.
        """
        self.torch.cuda.synchronize()
        self.value += 1
        value, late = self.value, threading.Event()

        def free() -> None:
            late.set()
            self.page.set(self.slot.FLAG, value)

        timer = threading.Timer(LATE_S, free)
        timer.start()
        try:
            is_done = submit() if before else None
            stream = self.driver.stream()
            self.page.wait(stream, self.slot.FLAG, value)
            self.kernels.tick(stream)
            self.page.write(stream, self.slot.START, value)
            is_done = is_done or submit()
            ran, started = False, time.perf_counter()
            while not late.is_set() and time.perf_counter() - started < WAIT_S and not ran:
                ran = is_done()
            took = (time.perf_counter() - started) * 1e6
            leaked = self.page.reached(self.slot.START, value) and not late.is_set()
        finally:
            timer.cancel()
            self.page.set(self.slot.FLAG, value)
            self.torch.cuda.synchronize()
        found: dict[str, object] = {"ran_ahead": ran, "late": late.is_set()}
        if ran:
            found["after_us"] = round(took, 1)
        if leaked:
            found["park_did_not_hold"] = True
        return found

    def done(self, stream: int) -> Callable[[], bool]:
        """Whether a stream has nothing left."""
        query = ctypes.CDLL("libcuda.so.1").cuStreamQuery
        return lambda: query(ctypes.c_void_p(stream)) == 0


def cases(child: Any) -> dict[str, Callable[[], dict]]:  # noqa: C901 - one list
    """Name to what is tried."""
    bed = Bed(child)
    torch, call, api = child.torch, child.driver.call, child.driver.api
    least, greatest = call("cuCtxGetStreamPriorityRange")
    plain = int(call("cuStreamCreate", 0))
    quiet = int(call("cuStreamCreate", 1))
    others = [int(call("cuStreamCreate", 1)) for _ in range(40)]
    high = int(call("cuStreamCreateWithPriority", 1, greatest))
    low = int(call("cuStreamCreateWithPriority", 1, least))
    memory, target = int(call("cuMemAlloc", 1 << 20)), int(call("cuMemAlloc", 1 << 20))
    pinned = int(call("cuMemHostAlloc", 1 << 20, 0))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(4):
            child.x.add_(1)
    wrapped = torch.cuda.ExternalStream(high)

    def kernel(stream: int) -> Callable[[], Callable[[], bool]]:
        def submit() -> Callable[[], bool]:
            child.kernels.tick(stream)
            return bed.done(stream)

        return submit

    def driver(name: str, *arguments: Any, stream: int) -> Callable[[], Callable[[], bool]]:
        def submit() -> Callable[[], bool]:
            call(name, *arguments, stream)
            return bed.done(stream)

        return submit

    def all_of_them() -> Callable[[], bool]:
        for stream in others:
            child.kernels.tick(stream)
        return lambda: any(bed.done(stream)() for stream in others)

    def replay() -> Callable[[], bool]:
        with torch.cuda.stream(wrapped):
            graph.replay()
        return bed.done(high)

    def waits_on_memory() -> Callable[[], bool]:
        """Queued ahead of the park: waits for a word that something else changes meanwhile."""
        child.page.set(bed.slot.RAISED, 0)
        child.page.wait(quiet, bed.slot.RAISED, 1)
        child.kernels.tick(quiet)
        done = bed.done(quiet)

        def look() -> bool:
            child.page.set(bed.slot.RAISED, 1)
            return done()

        return look

    parked = bed.parked
    found: dict[str, Callable[[], dict]] = {
        "nothing": lambda: parked(lambda: lambda: False),
        "kernel, blocking stream": lambda: parked(kernel(plain)),
        "kernel, other stream": lambda: parked(kernel(quiet)),
        "kernel, 40 streams": lambda: parked(all_of_them),
        "kernel, high priority": lambda: parked(kernel(high)),
        "kernel, low priority": lambda: parked(kernel(low)),
        "kernel, per-thread stream": lambda: parked(kernel(2)),
        "graph, high priority": lambda: parked(replay),
        "fill, other stream": lambda: parked(
            driver("cuMemsetD8Async", memory, 1, 1 << 20, stream=quiet)
        ),
        "fill, high priority": lambda: parked(
            driver("cuMemsetD8Async", memory, 1, 1 << 20, stream=high)
        ),
        "copy on the device": lambda: parked(
            driver("cuMemcpyDtoDAsync", target, memory, 1 << 20, stream=quiet)
        ),
        "copy to the host": lambda: parked(
            driver("cuMemcpyDtoHAsync", pinned, memory, 1 << 20, stream=quiet)
        ),
        "copy from the host": lambda: parked(
            driver("cuMemcpyHtoDAsync", memory, pinned, 1 << 20, stream=quiet)
        ),
        "copy to the host, high priority": lambda: parked(
            driver("cuMemcpyDtoHAsync", pinned, memory, 1 << 20, stream=high)
        ),
        "batched write": lambda: parked(write(child, bed, high)),
        "queued before, waits on memory": lambda: parked(waits_on_memory, before=True),
    }
    found["kernel, green context"] = lambda: parked(kernel(int(child.green())))
    found["fill, green context"] = lambda: green_fill(child, bed, memory)
    found["fill, second context"] = lambda: parked(second(child))
    found["fill, second context, again"] = found["fill, second context"]
    assert api is not None
    return found


def write(child: Any, bed: Bed, stream: int) -> Callable[[], Callable[[], bool]]:
    """A value written by a stream's own commands, no kernel and no copy."""

    def submit() -> Callable[[], bool]:
        child.page.write(stream, bed.slot.RAISED, bed.value)
        return bed.done(stream)

    return submit


def green_fill(child: Any, bed: Bed, memory: int) -> dict:
    """A fill in a green context that was made beforehand."""
    stream = int(child.green())

    def submit() -> Callable[[], bool]:
        child.driver.call("cuMemsetD8Async", memory, 1, 1 << 20, stream)
        return bed.done(stream)

    return bed.parked(submit)


def second(child: Any) -> Callable[[], Callable[[], bool]]:
    """A fill in a second context, made on first use and kept."""
    library = ctypes.CDLL("libcuda.so.1")
    old = ctypes.c_void_p()
    library.cuCtxGetCurrent(ctypes.byref(old))
    if not hasattr(child, "made"):
        child.made, child.memory = ctypes.c_void_p(), ctypes.c_uint64()
        library.cuCtxCreate_v2(ctypes.byref(child.made), 0, 0)
        library.cuMemAlloc_v2(ctypes.byref(child.memory), 1 << 20)
        library.cuCtxSetCurrent(old)

    def submit() -> Callable[[], bool]:
        library.cuCtxSetCurrent(child.made)
        library.cuMemsetD8Async(child.memory, 1, 1 << 20, None)
        library.cuCtxSetCurrent(old)

        def done() -> bool:
            library.cuCtxSetCurrent(child.made)
            answer = library.cuStreamQuery(None) == 0
            library.cuCtxSetCurrent(old)
            return answer

        return done

    return submit
