"""The kernel that the doctor interprets and cross-compiles; imported in its children only."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit  # type: ignore[untyped-decorator]
def double_kernel(source, target, n, block: tl.constexpr):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201, D103
    offsets = tl.program_id(0) * block + tl.arange(0, block)
    value = tl.load(source + offsets, mask=offsets < n)
    tl.store(target + offsets, value + value, mask=offsets < n)
