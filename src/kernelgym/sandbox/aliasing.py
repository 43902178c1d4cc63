"""Which of a call's outputs share memory with something they must not share it with.

Exact: two interleaved views of one buffer, halves of a `torch.chunk` say, do not share. Only where
that is too hard to decide, overlapping address ranges count as sharing. Works on addresses, so for
memory of any device, and on either side of the split.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import torch

from kernelgym.sandbox.pool import byte_extent

MAX_FOUND = 1_000
"""After so many findings no more are looked for."""
_MAX_WORK = 10_000
"""Candidates of the exact solution that numpy may try for one pair."""


class Range(NamedTuple):
    """Where a strided tensor lies."""

    name: str
    """What it is, e.g. ``input 1``."""
    low: int
    """Address of the first byte that it reaches."""
    high: int
    """One past the last."""
    shape: tuple[int, ...]
    """Sizes."""
    steps: tuple[int, ...]
    """Strides, in bytes."""
    item: int
    """Bytes of an element."""

    def has_gaps(self) -> bool:
        """Whether some byte between ``low`` and ``high`` is not its own."""
        elements = 1
        for size in self.shape:
            elements *= size
        return elements * self.item < self.high - self.low


class _Memory:
    """What numpy needs to reason about memory it never touches."""

    def __init__(self, place: Range) -> None:
        self.__array_interface__ = {
            "version": 3,
            "data": (place.low, True),
            "shape": place.shape,
            "strides": place.steps,
            "typestr": f"|V{place.item}",
        }


def ranges(kind: str, tensors: Iterable[tuple[object, torch.Tensor]]) -> list[Range]:
    """Where tensors lie, named ``kind which``; those without memory left out."""
    found = []
    for which, tensor in tensors:
        if tensor.layout is not torch.strided or tensor.device.type == "meta":
            continue
        base, item = tensor.untyped_storage().data_ptr(), tensor.element_size()
        low, high = byte_extent(tensor)
        if low < high:
            steps = tuple(step * item for step in tensor.stride())
            shape = tuple(tensor.shape)
            found.append(Range(f"{kind} {which}", base + low, base + high, shape, steps, item))
    return found


def aliases(outputs: Sequence[torch.Tensor], others: Sequence[Range]) -> list[str]:
    """``<output> <kind> <which>`` for every output that shares memory with one of ``others`` or
    with an output before it."""
    return aliases_of(ranges("output", enumerate(outputs)), others)


def aliases_of(outputs: Sequence[Range], others: Sequence[Range]) -> list[str]:
    """The same for outputs that may be gone by now: where they lay."""
    places = [(-1, place) for place in others]
    places += [(int(p.name.split()[1]), p) for p in outputs]
    places.sort(key=lambda entry: entry[1].low)
    found: list[tuple[int, int, str]] = []
    reaching: list[tuple[int, Range]] = []
    for index, place in places:
        reaching = [entry for entry in reaching if entry[1].high > place.low]
        for other_index, other in reaching:
            if (index >= 0 or other_index >= 0) and _share(place, other):
                first, second = sorted([(index, place), (other_index, other)], key=lambda e: e[0])
                found.append((second[0], first[0], f"{second[0]} {first[1].name}"))
                if len(found) == MAX_FOUND:
                    return [text for _, _, text in sorted(found)]
        reaching.append((index, place))
    return [text for _, _, text in sorted(found)]


def _share(a: Range, b: Range) -> bool:
    if not (a.has_gaps() or b.has_gaps()):
        return True
    try:
        return np.shares_memory(np.asarray(_Memory(a)), np.asarray(_Memory(b)), _MAX_WORK)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True
