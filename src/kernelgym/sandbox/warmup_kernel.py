"""The throw-away kernel that warms the compiler of a zygote; imported there only."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime.jit import MockTensor

from kernelgym.trace.signatures import describe


@triton.jit  # type: ignore[untyped-decorator]
def _row_softmax(source, target, columns, block: tl.constexpr):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    row = tl.program_id(0)
    column = tl.arange(0, block)
    inside = column < columns
    value = tl.load(source + row * columns + column, mask=inside, other=-float("inf"))
    value = tl.exp(value - tl.max(value, 0))
    tl.store(target + row * columns + column, value / tl.sum(value, 0), mask=inside)


def compile_once() -> None:
    """Run every stage of the compiler, to a cubin."""
    signature = {"source": "*fp32", "target": "*fp32", "columns": "i32", "block": "constexpr"}
    source = ASTSource(_row_softmax, signature, {"block": 1024})
    triton.compile(source, target=GPUTarget("cuda", 90, 32))


@triton.jit  # type: ignore[untyped-decorator]
def _count(start, block: tl.constexpr):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    number = start + tl.arange(0, block)
    tl.device_assert(tl.sum(number, 0) > 0)


def interpret_once() -> None:
    """Run a kernel without tensors, and describe a launch as the recorder does."""
    _count[(1,)](7, block=16)
    pointer = MockTensor(torch.float32)
    describe(_row_softmax.fn, {}, (pointer, pointer, 7), {"block": 16})
