"""Which of a call's outputs share memory with something they must not share it with.

Memory is compared by address range, from first to last byte that a strided tensor can reach: two
interleaved views of one buffer count as sharing. Usable on either side of the split.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch

from kernelgym.sandbox.pool import byte_extent

Range = tuple[str, int, int]
"""What it is (``input 1``), first address, one past the last."""


def address_range(tensor: torch.Tensor) -> tuple[int, int]:
    """First and one-past-last address that a strided tensor reaches; (0, 0) when it has no
    memory."""
    if tensor.layout is not torch.strided or tensor.device.type == "meta" or not tensor.numel():
        return 0, 0
    base = tensor.untyped_storage().data_ptr()
    low, high = byte_extent(tensor)
    return base + low, base + high


def ranges(kind: str, tensors: Iterable[tuple[object, torch.Tensor]]) -> list[Range]:
    """Address ranges of tensors, named ``kind which``; those without memory left out."""
    found = []
    for which, tensor in tensors:
        low, high = address_range(tensor)
        if low < high:
            found.append((f"{kind} {which}", low, high))
    return found


def aliases(outputs: Sequence[torch.Tensor], others: Sequence[Range]) -> list[str]:
    """``<output> <kind> <which>`` for every output that overlaps one of ``others`` or a
    predecessor."""
    found = []
    known = sorted(others, key=lambda item: item[1])
    for name, low, high in ranges("output", enumerate(outputs)):
        index = name.removeprefix("output ")
        for other, other_low, other_high in known:
            if other_low >= high:
                break
            if low < other_high:
                found.append(f"{index} {other}")
        known = sorted([*known, (name, low, high)], key=lambda item: item[1])
    return found
