"""A few kernels of our own, as PTX: no Triton, no torch, nothing to patch.

A zygote assembles them once (`assemble`), its children load machine code; elsewhere the driver
compiles them, which takes 20 ms in every process.

``kernelgym_tick``   one thread, one store: brings a context onto the GPU, and is the canary
``kernelgym_spin``   runs for a given time by the GPU's own clock: ground truth for every other
clock
``kernelgym_copy``   16 bytes a thread: a kernel of known traffic
``kernelgym_agree_*``  compares answers with targets, for the judge (`Kernels.agree`)

The names show up in device records, where the tick proves that a profiler was listening.
"""

from __future__ import annotations

import contextlib
import ctypes
import struct
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernelgym.cuda.driver import CudaError, Driver

TICK, SPIN, COPY = "kernelgym_tick", "kernelgym_spin", "kernelgym_copy"
AGREE = "kernelgym_agree_"
_WIDEN = {
    "f32": ("b32", 2, "mov.b32 {to}, {raw};"),
    "f16": ("b16", 1, "cvt.f32.f16 {to}, {raw};"),
    "bf16": ("b16", 1, "cvt.u32.u16 %bits, {raw}; shl.b32 %bits, %bits, 16; mov.b32 {to}, %bits;"),
}
"""How an element is loaded, log2 of its bytes, and how it becomes a float32."""
_AGREE_THREADS, _AGREE_BLOCKS, _AGREE_ITEMS = 256, 2048, 4
COPY_BYTES_A_THREAD = 16
_COPY_THREADS = 256

_HEAD = """\
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
_AGREE = """
.visible .entry kernelgym_agree_{name}(.param .u64 actual, .param .u64 target, .param .u64 count,
    .param .f32 slope, .param .f32 floor, .param .u64 flag)
{{
    .reg .b64 %left, %right, %items, %index, %wide, %step, %from, %word;
    .reg .b32 %block, %size, %thread, %blocks, %one, %bits;
    .reg .{raw} %a, %t;
    .reg .f32 %got, %wanted, %slope, %floor, %off, %allowed;
    .reg .pred %outside, %good;
    ld.param.u64 %left, [actual];
    ld.param.u64 %right, [target];
    ld.param.u64 %items, [count];
    ld.param.f32 %slope, [slope];
    ld.param.f32 %floor, [floor];
    ld.param.u64 %word, [flag];
    cvta.to.global.u64 %left, %left;
    cvta.to.global.u64 %right, %right;
    cvta.to.global.u64 %word, %word;
    mov.u32 %block, %ctaid.x;
    mov.u32 %size, %ntid.x;
    mov.u32 %thread, %tid.x;
    mov.u32 %blocks, %nctaid.x;
    mul.wide.u32 %index, %block, %size;
    cvt.u64.u32 %wide, %thread;
    add.u64 %index, %index, %wide;
    mul.wide.u32 %step, %size, %blocks;
again:
    setp.ge.u64 %outside, %index, %items;
    @%outside bra done;
    shl.b64 %wide, %index, {shift};
    add.u64 %from, %left, %wide;
    ld.global.{raw} %a, [%from];
    add.u64 %from, %right, %wide;
    ld.global.{raw} %t, [%from];
    {widen_a}
    {widen_t}
    sub.f32 %off, %got, %wanted;
    abs.f32 %off, %off;
    abs.f32 %wanted, %wanted;
    fma.rn.f32 %allowed, %wanted, %slope, %floor;
    setp.le.f32 %good, %off, %allowed;
    add.u64 %index, %index, %step;
    @%good bra again;
    mov.u32 %one, 1;
    st.global.u32 [%word], %one;
done:
    ret;
}}
"""


def _ptx() -> str:
    agree = (
        _AGREE.format(
            name=name,
            raw=raw,
            shift=shift,
            widen_a=widen.format(to="%got", raw="%a"),
            widen_t=widen.format(to="%wanted", raw="%t"),
        )
        for name, (raw, shift, widen) in _WIDEN.items()
    )
    return _HEAD + "".join(agree)


PTX = _ptx()


TARGETS = (80, 90, 100)
_IMAGES: list[bytes] = []
"""Machine code for `TARGETS`, where it was assembled."""


def assemble(ptxas: str, targets: Sequence[int] = TARGETS) -> int:
    """Make machine code for this process and its children; for how many targets that worked."""
    _IMAGES.clear()
    if not Path(ptxas).exists():
        return 0
    with tempfile.TemporaryDirectory(prefix="kernelgym-ptx-") as directory:
        source, made = Path(directory, "kernels.ptx"), Path(directory, "kernels.cubin")
        source.write_text(PTX)
        for target in targets:
            command = [ptxas, f"-arch=sm_{target}", str(source), "-o", str(made)]
            done = subprocess.run(command, capture_output=True, check=False, timeout=60)
            if done.returncode == 0:
                _IMAGES.append(made.read_bytes())
    return len(_IMAGES)


def _load(driver: Driver) -> Any:
    """The module: machine code that fits the device, or else PTX."""
    for image in _IMAGES:
        with contextlib.suppress(CudaError):  # made for another device
            return driver.call("cuModuleLoadData", image)
    return driver.call("cuModuleLoadData", PTX.encode() + b"\0")


class Kernels:
    """The module, loaded into the current context, and four bytes for it to write to."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._module = _load(driver)
        self._functions: dict[str, Any] = {
            name: driver.call("cuModuleGetFunction", self._module, name.encode())
            for name in (TICK, SPIN, COPY, *(AGREE + name for name in _WIDEN))
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

    def agree(
        self,
        stream: int,
        dtype: str,
        actual: int,
        target: int,
        count: int,
        slope: float,
        floor: float,
        flag: int,
    ) -> None:
        """Queue a comparison of ``count`` dense elements of ``dtype`` (f32, f16, bf16).

        The word at ``flag`` becomes 1 unless |actual - target| <= slope * |target| + floor holds,
        in float32, for each: a NaN on either side is a 1.
        """
        blocks = -(-count // (_AGREE_THREADS * _AGREE_ITEMS))
        blocks = max(1, min(_AGREE_BLOCKS, blocks))
        self._launch(
            AGREE + dtype, blocks, _AGREE_THREADS, stream,
            actual, target, count, _bits(slope), _bits(floor), flag,
        )  # fmt: skip

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


def _bits(number: float) -> int:
    """A float32 as the first four bytes of a parameter cell."""
    return int.from_bytes(struct.pack("<f", number), "little")
