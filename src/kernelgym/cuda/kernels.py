"""Three kernels of our own, as PTX that the driver compiles: no Triton, no torch, nothing to patch.

``kernelgym_tick``   one thread, one store: brings a context onto the GPU, and is the canary
``kernelgym_spin``   runs for a given time by the GPU's own clock: ground truth for every other
clock
``kernelgym_copy``   16 bytes a thread: a kernel of known traffic

The names show up in device records, where the tick proves that a profiler was listening.
"""

from __future__ import annotations

import ctypes
from typing import Any

from kernelgym.cuda.driver import Driver

TICK, SPIN, COPY = "kernelgym_tick", "kernelgym_spin", "kernelgym_copy"
COPY_BYTES_A_THREAD = 16
_COPY_THREADS = 256

PTX = """\
.version 7.0
.target sm_80
.address_size 64

.visible .entry kernelgym_tick(.param .u64 target)
{
    .reg .b64 %address;
    .reg .b32 %one;
    ld.param.u64 %address, [target];
    cvta.to.global.u64 %address, %address;
    mov.u32 %one, 1;
    st.global.u32 [%address], %one;
    ret;
}

.visible .entry kernelgym_spin(.param .u64 target, .param .u64 nanoseconds)
{
    .reg .b64 %address, %begin, %now, %limit;
    .reg .b32 %one;
    .reg .pred %more;
    ld.param.u64 %address, [target];
    ld.param.u64 %limit, [nanoseconds];
    cvta.to.global.u64 %address, %address;
    mov.u64 %begin, %globaltimer;
again:
    mov.u64 %now, %globaltimer;
    sub.u64 %now, %now, %begin;
    setp.lt.u64 %more, %now, %limit;
    @%more bra again;
    mov.u32 %one, 1;
    st.global.u32 [%address], %one;
    ret;
}

.visible .entry kernelgym_copy(.param .u64 target, .param .u64 source, .param .u64 count)
{
    .reg .b64 %to, %from, %items, %index, %wide;
    .reg .b32 %block, %size, %thread;
    .reg .f32 %a, %b, %c, %d;
    .reg .pred %outside;
    ld.param.u64 %to, [target];
    ld.param.u64 %from, [source];
    ld.param.u64 %items, [count];
    cvta.to.global.u64 %to, %to;
    cvta.to.global.u64 %from, %from;
    mov.u32 %block, %ctaid.x;
    mov.u32 %size, %ntid.x;
    mov.u32 %thread, %tid.x;
    mul.wide.u32 %index, %block, %size;
    cvt.u64.u32 %wide, %thread;
    add.u64 %index, %index, %wide;
    setp.ge.u64 %outside, %index, %items;
    @%outside bra done;
    shl.b64 %index, %index, 4;
    add.u64 %from, %from, %index;
    add.u64 %to, %to, %index;
    ld.global.v4.f32 {%a, %b, %c, %d}, [%from];
    st.global.v4.f32 [%to], {%a, %b, %c, %d};
done:
    ret;
}
"""


class Kernels:
    """The module, loaded into the current context, and four bytes for it to write to."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._module = driver.call("cuModuleLoadData", PTX.encode() + b"\0")
        self._functions: dict[str, Any] = {
            name: driver.call("cuModuleGetFunction", self._module, name.encode())
            for name in (TICK, SPIN, COPY)
        }
        self._word = int(driver.call("cuMemAlloc", 4))

    def tick(self, stream: int) -> None:
        """Queue the smallest kernel."""
        self._launch(TICK, 1, 1, stream, self._word)

    def spin(self, stream: int, nanoseconds: int, blocks: int = 1) -> None:
        """Queue a kernel that runs for a given time."""
        self._launch(SPIN, blocks, 1, stream, self._word, nanoseconds)

    def copy(self, stream: int, target: int, source: int, size: int) -> None:
        """Queue a copy of ``size`` bytes, a multiple of 16, by a kernel."""
        items = size // COPY_BYTES_A_THREAD
        blocks = -(-items // _COPY_THREADS)
        self._launch(COPY, blocks, _COPY_THREADS, stream, target, source, items)

    def _launch(self, name: str, blocks: int, threads: int, stream: int, *values: int) -> None:
        cells = [ctypes.c_uint64(value) for value in values]
        pointers = (ctypes.c_void_p * len(cells))(*[ctypes.addressof(cell) for cell in cells])
        self._driver.call(
            "cuLaunchKernel", self._functions[name], blocks, 1, 1, threads, 1, 1, 0, stream,
            ctypes.addressof(pointers), 0,
        )  # fmt: skip

    def close(self) -> None:
        """Give back the memory; the module goes with the context."""
        self._driver.call("cuMemFree", self._word)
