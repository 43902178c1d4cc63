"""Memory that a call allocates and nobody has written holds a byte that the judge has chosen.

Without this, fresh memory holds zeros, or an answer of an earlier call, and a kernel that leaves
elements unwritten may pass. On a CPU every allocation that the dispatcher sees is filled. On a GPU
that would put kernels of ours into the candidate's call, and into graphs that it captures; instead
the allocator's free list is given blocks of the size of the outputs, filled, before the call.

Not covered: memory that C++ code allocates inside an operator, and allocators of the candidate's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

_ALLOCATES = frozenset(
    {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "empty_permuted"}
)
_BLOCKS = 3
"""Blocks of each size that the free list is given."""
MAX_FREE_BYTES = 1 << 30


def allocates(operator: str) -> bool:
    """Whether an ATen operator returns memory that it does not write."""
    return operator in _ALLOCATES


def fill(value: Any, byte: int) -> None:
    """Fill what such an operator has returned."""
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
        return
    if value.device.type != "cpu" or not value.numel():
        return
    storage = torch.empty(0, dtype=torch.uint8)
    storage.set_(value.untyped_storage())
    storage.fill_(byte)


def fill_free_blocks(like: Sequence[torch.Tensor], byte: int) -> None:
    """Leave filled blocks of the size of these tensors where the next allocations find them."""
    sizes = [t.nbytes for t in like if t.device.type == "cuda" and t.nbytes]
    if not sizes or _BLOCKS * sum(sizes) > MAX_FREE_BYTES:
        return
    blocks = [
        torch.full((size,), byte, dtype=torch.uint8, device="cuda")
        for size in sizes
        for _ in range(_BLOCKS)
    ]
    del blocks
