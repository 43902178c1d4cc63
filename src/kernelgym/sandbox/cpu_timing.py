"""Timed calls on a CPU: call, look at the clock, copy the answer out; alike for both sides.

The clock is the processor time of the whole process, all threads together: on a busy machine wall
time tells who else was running. In the candidate's process the times and what own kernels took are
claims. The judge bounds them by its own clock around the request, and compares every answer.

    TIME (CpuTime) -> TIMED (CpuTimed)

Not covered: work in other processes, or that threads go on with after the call has returned.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from pydantic import Field

from kernelgym.sandbox import calling
from kernelgym.sandbox.aliasing import Range
from kernelgym.sandbox.messages import Call, Output, _Body
from kernelgym.trace.recorder import Recorder

MAX_CALLS = 16
MAX_KERNELS = 100
CACHE_BYTES = 32 << 20
"""Swept before every call."""

_now_ns = time.process_time_ns
"""As it was before a candidate could replace it."""


_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4
_USUAL_TRIM_BYTES, _USUAL_MMAPS = 128 << 10, 65_536


def keep_memory(keep: bool) -> None:
    """Whether freed memory stays with the process (glibc; elsewhere nothing happens).

    By itself glibc takes large blocks from the kernel and gives them back, or does not, depending
    on what the process did before: two processes then differ by the page faults of every output.
    """
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallopt"):
        return
    libc.mallopt(_M_MMAP_MAX, 0 if keep else _USUAL_MMAPS)
    libc.mallopt(_M_TRIM_THRESHOLD, -1 if keep else _USUAL_TRIM_BYTES)
    if not keep and hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)


class CpuTime(_Body):
    """Calls to be timed one after the other."""

    calls: tuple[Call, ...] = Field(max_length=MAX_CALLS)
    """Each has inputs of its own; the first is to warm up."""


# --- claims ---------------------------------------------------------------------------------------


class KernelTime(_Body):
    """One kernel in all but the first call."""

    name: str = Field(max_length=200)
    own: bool
    """Compiled from the candidate's source."""
    launches: int
    time_us: float
    """Of all launches together."""


class CpuTimed(_Body):
    """What the harness measured, and what the calls returned."""

    calls_us: tuple[float, ...] = Field(max_length=MAX_CALLS)
    """Processor time of each call."""
    own_us: tuple[float, ...] = Field(max_length=MAX_CALLS)
    """What own kernels took of it."""
    kernels: tuple[KernelTime, ...] = Field(max_length=MAX_KERNELS)
    """What backends say of kernels (`Recorder.ran`)."""
    outputs: tuple[Output, ...] = Field(max_length=MAX_CALLS)
    """One a call; the tensors were copied into the output pool after the clock was read."""


def run(
    request: CpuTime,
    pools: tuple[torch.Tensor, torch.Tensor],
    ready: Callable[[Call], None],
    module: Any,
    state: Sequence[Range],
    recorder: Recorder,
) -> CpuTimed:
    """All calls. ``pools``: inputs and outputs; ``ready`` seeds and sets the mode; ``state``: where
    the module's state lies."""
    keep_memory(True)
    times: list[float] = []
    own_us: list[float] = []
    outputs = []
    cache = torch.zeros(CACHE_BYTES // 8, dtype=torch.int64)
    prepared = [calling.arguments(call, pools[0]) for call in request.calls]
    for call, (inputs, tensors) in zip(request.calls, prepared, strict=True):
        ready(call)
        if len(times) <= 1:
            recorder.kernel_ns.clear()
        with torch.no_grad():
            _sweep(cache)
            aside, began = recorder.aside_ns, _now_ns()
            value = module(*inputs)
            times.append((_now_ns() - began - (recorder.aside_ns - aside)) / 1e3)
        own_us.append(_own_us(recorder) - sum(own_us[1:]))
        others = [*calling.input_ranges(tensors), *state]
        outputs.append(calling.Returned(value).answer(pools[1], call.output_offset, others))
    kernels = [
        KernelTime(name=name[:200], own=own, launches=launches, time_us=spent_ns / 1e3)
        for (name, own), (launches, spent_ns) in recorder.kernel_ns.items()
    ]
    return CpuTimed(
        calls_us=tuple(times),
        own_us=tuple(own_us),
        kernels=tuple(kernels[:MAX_KERNELS]),
        outputs=tuple(outputs),
    )


def _sweep(cache: torch.Tensor) -> None:
    """Make the caches cold, whoever ran before and whoever wrote the inputs."""
    cache.add_(1)


def _own_us(recorder: Recorder) -> float:
    """Of own kernels since the first call, all together."""
    return sum(spent / 1e3 for (_, own), (_, spent) in recorder.kernel_ns.items() if own)
