"""The throw-away kernel that warms the compiler of a zygote; imported there only."""

from __future__ import annotations

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


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


def rewrite() -> None:
    """Let the interpreter rewrite the kernel's source as it does before a first launch."""
    _row_softmax.rewrite()
