"""Bands round the inputs in their pool: filled before a call, looked at after it.

What a kernel reads past the end of an input is a NaN in one call and a tiny number in the next, so
that a missing mask shows in the answer; what it writes there has changed the band. Bands round
outputs are not possible: a candidate allocates those itself (`kernelgym.sandbox.filling`).

Not covered: accesses further away than a band, and gaps inside a strided tensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from kernelgym.sandbox.pool import ALIGNMENT, TensorLayout

BAND_BYTES = 8 * ALIGNMENT


@dataclass(frozen=True)
class Bands:
    """Filled bytes of a pool."""

    flat: torch.Tensor
    spans: tuple[tuple[int, int], ...]
    byte: int

    def intact(self) -> list[torch.Tensor]:
        """Whether each band is as it was filled, not waited for."""
        return [(self.flat[low:high] == self.byte).all() for low, high in self.spans]

    def broken(self) -> str | None:
        """Where a byte has changed, in words, or None."""
        for low, high in self.spans:
            wrong = self.flat[low:high] != self.byte
            if bool(wrong.any()):
                place = low + int(wrong.to(torch.uint8).argmax())
                count = int(wrong.sum())
                return f"{count} bytes outside the inputs were written, from byte {place}"
        return None


def fill(
    flat: torch.Tensor, layouts: Sequence[TensorLayout], start: int, end: int, byte: int
) -> Bands:
    """Fill what lies between ``start`` and ``end`` outside the tensors."""
    spans = []
    place = start
    for low, high in sorted(_extent(layout) for layout in layouts):
        if low > place:
            spans.append((place, low))
        place = max(place, high)
    if end > place:
        spans.append((place, end))
    for low, high in spans:
        flat[low:high].fill_(byte)
    return Bands(flat, tuple(spans), byte)


def _extent(layout: TensorLayout) -> tuple[int, int]:
    if 0 in layout.shape:
        return layout.offset, layout.offset
    dtype: torch.dtype = getattr(torch, layout.dtype)
    reach = sum((n - 1) * s for n, s in zip(layout.shape, layout.stride, strict=True)) + 1
    return layout.offset, layout.offset + reach * dtype.itemsize
