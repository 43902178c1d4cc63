"""Memory that judge and candidate both map, and where in it each tensor lies.

A pool is one flat buffer of bytes; tensors are strided views of it. Nothing secret may ever lie in
a pool: mappings cannot be revoked, and a write past a view lands silently in its neighbour.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Sequence
from typing import Protocol

import torch
from pydantic import BaseModel, ConfigDict

from kernelgym.sandbox import shared_file

ALIGNMENT = 512
"""Every tensor's storage starts at a multiple of this many bytes."""


class TensorLayout(BaseModel):
    """A strided tensor inside a pool."""

    model_config = ConfigDict(frozen=True)

    dtype: str
    """Name of the dtype without ``torch.``."""
    shape: tuple[int, ...]
    """Sizes."""
    stride: tuple[int, ...]
    """Strides, in elements."""
    offset: int
    """Byte offset of the first element; -1 for a tensor that was not stored."""
    requires_grad: bool = False
    """Whether the tensor asks for a gradient."""


class Pool(Protocol):
    """One shared buffer."""

    flat: torch.Tensor
    """All bytes, as a 1-D uint8 tensor on the pool's device."""

    def fileno(self) -> int:
        """Descriptor by which another process can map the same memory."""
        ...

    def close(self) -> None:
        """Unmap it here; the memory lives on while anybody maps it."""
        ...


class HostPool:
    """A pool in host memory: an anonymous file, mapped shared."""

    def __init__(self, size: int, fd: int | None = None) -> None:
        """Create a pool of at least ``size`` bytes, or map the one behind ``fd`` (taken over)."""
        self.size = max(mmap.PAGESIZE, -(-size // mmap.PAGESIZE) * mmap.PAGESIZE)
        if fd is None:
            fd = shared_file.make("kernelgym-pool", self.size)
        self._fd = fd
        self._map = mmap.mmap(fd, self.size)
        self.flat = torch.frombuffer(self._map, dtype=torch.uint8)

    def fileno(self) -> int:
        """Descriptor of the anonymous file."""
        return self._fd

    def close(self) -> None:
        """Close the descriptor; the mapping goes when the last tensor over it does."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


_MOST_VIEWS = 1_000


def byte_extent(tensor: torch.Tensor) -> tuple[int, int]:
    """First and one-past-last byte that a strided tensor touches in its storage."""
    size = tensor.element_size()
    low = int(tensor.storage_offset()) * size
    if tensor.numel() == 0:
        return low, low
    reach = int(sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True)))
    return low, low + (reach + 1) * size


def place(
    tensors: Sequence[torch.Tensor], start: int = 0, *, gap: int = 0
) -> tuple[list[TensorLayout], int]:
    """Plan where tensors go, from byte ``start``; returns the layouts and the end.

    ``gap`` bytes, a multiple of `ALIGNMENT`, are left free before, between and after storages.

    Strides are kept, and tensors that share memory keep sharing it: a storage is laid out once, as
    far as any of the tensors reaches into it.
    """
    extents: dict[int, tuple[int, int]] = {}
    for tensor in tensors:
        key = tensor.untyped_storage().data_ptr()
        low, high = byte_extent(tensor)
        if tensor.numel():
            old = extents.get(key, (low, high))
            extents[key] = (min(old[0], low), max(old[1], high))
    bases: dict[int, int] = {}
    start += gap
    for key, (low, high) in extents.items():
        low -= low % ALIGNMENT
        bases[key] = start - low
        start = aligned(start + high - low) + gap
    layouts = [
        TensorLayout(
            dtype=str(tensor.dtype).removeprefix("torch."),
            shape=tuple(tensor.shape),
            stride=tuple(tensor.stride()),
            offset=bases.get(tensor.untyped_storage().data_ptr(), start) + byte_extent(tensor)[0]
            if tensor.numel()
            else start,
            requires_grad=tensor.requires_grad,
        )
        for tensor in tensors
    ]
    return layouts, start


def place_dense(tensors: Sequence[torch.Tensor], start: int = 0) -> tuple[list[TensorLayout], int]:
    """Plan contiguous copies of tensors, each at its own place; returns the layouts and the end."""
    layouts = []
    for tensor in tensors:
        layouts.append(
            TensorLayout(
                dtype=str(tensor.dtype).removeprefix("torch."),
                shape=tuple(tensor.shape),
                stride=dense_stride(tensor.shape),
                offset=start,
            )
        )
        start = aligned(start + tensor.numel() * tensor.element_size())
    return layouts, start


def aligned(offset: int) -> int:
    """The next multiple of `ALIGNMENT`."""
    return -(-offset // ALIGNMENT) * ALIGNMENT


def dense_stride(shape: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides of a shape, in elements."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def view(flat: torch.Tensor, layout: TensorLayout) -> torch.Tensor:
    """The tensor that ``layout`` describes, over the pool's memory.

    Raises ``ValueError`` when it does not lie wholly inside the pool, or cannot be had at all.
    """
    try:
        return _view(flat, layout)
    except (RuntimeError, TypeError, OverflowError) as error:  # sizes that overflow, odd dtypes
        raise ValueError(f"no tensor can be like that: {str(error)[:200]}") from error


def _view(flat: torch.Tensor, layout: TensorLayout) -> torch.Tensor:
    dtype = getattr(torch, layout.dtype, None)
    if not isinstance(dtype, torch.dtype) or layout.dtype.startswith("q"):  # quantised
        raise ValueError(f"unknown dtype {layout.dtype!r}")
    if len(layout.shape) != len(layout.stride) or min((*layout.shape, *layout.stride, 0)) < 0:
        raise ValueError("malformed shape or stride")
    if 0 in layout.shape:
        return torch.empty(layout.shape, dtype=dtype, device=flat.device)
    reach = sum((n - 1) * s for n, s in zip(layout.shape, layout.stride, strict=True)) + 1
    end = layout.offset + reach * dtype.itemsize
    if layout.offset < 0 or end > flat.numel() or layout.offset % dtype.itemsize:
        raise ValueError("tensor outside its pool")
    typed = flat[layout.offset : end].view(dtype)
    return typed.as_strided(layout.shape, layout.stride, typed.storage_offset())


def write(
    flat: torch.Tensor, layouts: Sequence[TensorLayout], values: Sequence[torch.Tensor]
) -> None:
    """Copy values into the places planned for them."""
    for layout, value in zip(layouts, values, strict=True):
        if value.numel():
            view(flat, layout).copy_(value.detach())


class Views:
    """Tensors over one pool, made once a layout: for calls of which there are many."""

    def __init__(self, flat: torch.Tensor) -> None:
        self.flat = flat
        self._known: dict[tuple[object, ...], torch.Tensor] = {}

    def of(self, layout: TensorLayout) -> torch.Tensor:
        """The same as `view`; the same object every time."""
        key = (layout.offset, layout.dtype, layout.shape, layout.stride)
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _MOST_VIEWS:
                self._known.clear()
            found = self._known[key] = view(self.flat, layout)
        return found

    def fresh(self, layout: TensorLayout) -> torch.Tensor:
        """The same memory, as an object that nobody has seen."""
        return self.of(layout).detach()
