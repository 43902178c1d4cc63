"""A timed call on a CPU: call, look at the clock, copy the answer out; alike for both sides.

The clock is the processor time of the whole process, all threads together: on a busy machine wall
time tells who else was running. In the candidate's process the times and what own kernels took are
claims. The host bounds them by the clock of the process, read from outside around the second
request (`kernelgym.sandbox.outside_clock`), and the judge compares every answer.

    TIME (CpuTime without a call) -> TIMED (CpuReady)    memory laid out anew (`lay_out`)
    TIME (CpuTime) -> TIMED (CpuTimed)

Inputs are handed over after the first look at that clock, so that nobody computes ahead; last, the
judge makes the caches of their processor cold (`sweep`).

Not covered: work in other processes, or that threads go on with after the call has returned.
"""

from __future__ import annotations

import ctypes
import random
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from pydantic import Field

from kernelgym.sandbox import calling
from kernelgym.sandbox.aliasing import Range
from kernelgym.sandbox.messages import Call, Output, _Body
from kernelgym.trace.recorder import Recorder

MAX_KERNELS = 100
CACHE_BYTES = 32 << 20
"""Read before every call."""

OWN_BYTES = 8 << 20
"""Read once more by the process that makes the call: what it knows of addresses is cold then, too,
whether or not somebody else ran just before."""
_BLOCKS = 8
_BLOCK_FLOATS = (1 << 19, 1 << 20)

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
    """A call to be timed, or what comes before it."""

    call: Call | None
    """None: make everything ready for one. Nothing of the call is known yet, its inputs neither."""


# --- claims ---------------------------------------------------------------------------------------


class KernelTime(_Body):
    """One kernel in one call."""

    name: str = Field(max_length=200)
    own: bool
    """Compiled from the candidate's source."""
    launches: int
    time_us: float
    """Of all launches together."""


class CpuReady(_Body):
    """A call may come."""


class CpuTimed(_Body):
    """What the harness measured, and what the call returned."""

    call_us: float
    """Processor time."""
    own_us: float
    """What own kernels took of it."""
    kernels: tuple[KernelTime, ...] = Field(max_length=MAX_KERNELS)
    """What backends say of kernels (`Recorder.ran`)."""
    output: Output
    """The tensors were copied into the output pool after the clock was read."""


def lay_out() -> CpuReady:
    """Draw anew where the tensors of the next call will lie: blocks are held, between holes.

    Much of a call's time depends on that (how far apart they lie modulo a page, which of them
    follow one another in the same memory), and without this it is decided once a process.
    """
    keep_memory(True)
    draw = random.SystemRandom()
    blocks = [torch.empty(draw.randrange(*_BLOCK_FLOATS)) for _ in range(2 * _BLOCKS)]
    draw.shuffle(blocks)
    _held[:] = blocks[:_BLOCKS]
    return CpuReady()


def run(
    call: Call,
    pools: tuple[torch.Tensor, torch.Tensor],
    ready: Callable[[Call], None],
    module: Any,
    state: Sequence[Range],
    recorder: Recorder,
) -> CpuTimed:
    """One call, after `lay_out`. ``pools``: inputs and outputs; ``ready`` seeds and sets the mode;
    ``state``: where the module's state lies."""
    inputs, tensors = calling.arguments(call, pools[0])
    ready(call)
    recorder.kernel_ns.clear()
    with torch.no_grad():
        sweep(OWN_BYTES)
        aside, began = recorder.aside_ns, _now_ns()
        value = module(*inputs)
        call_us = (_now_ns() - began - (recorder.aside_ns - aside)) / 1e3
    _held.clear()
    kernels = [
        KernelTime(name=name[:200], own=own, launches=launches, time_us=spent_ns / 1e3)
        for (name, own), (launches, spent_ns) in recorder.kernel_ns.items()
    ]
    others = [*calling.input_ranges(tensors), *state]
    return CpuTimed(
        call_us=call_us,
        own_us=_own_us(recorder),
        kernels=tuple(kernels[:MAX_KERNELS]),
        output=calling.Returned(value).answer(pools[1], call.output_offset, others),
    )


_held: list[torch.Tensor] = []
"""Blocks between which the next call's memory will lie."""

_swept: list[torch.Tensor] = []
"""Made at the first call, because a process that times nothing needs none."""


def sweep(part_bytes: int = CACHE_BYTES) -> None:
    """Make the caches of this processor cold, whoever ran before and whoever wrote the inputs.
    Reading does, and leaves nothing that would have to be written back while the clock runs."""
    if not _swept:
        _swept.append(torch.ones(CACHE_BYTES // 8, dtype=torch.int64))
    _swept[0][: part_bytes // 8].sum()


def _own_us(recorder: Recorder) -> float:
    """Of own kernels in this call, all together."""
    return sum(spent / 1e3 for (_, own), (_, spent) in recorder.kernel_ns.items() if own)
