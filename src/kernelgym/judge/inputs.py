"""Seeds, and the bytes that a call starts from.

A seed comes from the operating system's generator, is drawn after the candidate is loaded, and is
used once: for inputs, or for the state of the generators during a call, never for both. Inputs are
made on the device and converted to the precision of the evaluation; the candidate gets a copy.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from kernelgym.sandbox.pool import TensorLayout, byte_extent, place_dense
from kernelgym.sandbox.seeding import seed_everything
from kernelgym.sandbox.tree import Node, flatten, unflatten

POISON = (0xFF, 0xA5)
"""Bytes put where outputs will lie, in turn. 0xFF makes every floating-point number a NaN."""

CONVERTED = frozenset({torch.float64, torch.float32, torch.float16, torch.bfloat16})
"""Dtypes that the precision of an evaluation replaces; integers and 8-bit floats stay."""


@dataclass(frozen=True)
class Arguments:
    """Positional arguments of one call, in the judge's own memory."""

    node: Node
    tensors: list[torch.Tensor]

    def values(self) -> list[object]:
        """The arguments as they are passed; the tensors are shared, not copied."""
        values = unflatten(self.node, self.tensors)
        assert isinstance(values, list)
        return values

    @property
    def size_bytes(self) -> int:
        """Bytes of all storages, each counted once."""
        return storage_bytes(self.tensors)


def draw_seed() -> int:
    """A fresh secret of 48 bits, exact as a JSON number in any reader."""
    return int.from_bytes(os.urandom(6), "big")


def generator_state() -> tuple[object, ...]:
    """State of the generators, to see whether a call has drawn from one."""
    numpy_state: Any = np.random.get_state()
    return (
        random.getstate(),
        (numpy_state[1].tobytes(), *numpy_state[2:]),
        torch.get_rng_state().numpy().tobytes(),
    )


def seeded_state(seed: int) -> tuple[object, ...]:
    """State of the generators right after seeding them (which this does)."""
    seed_everything(seed)
    return generator_state()


def convert(tensors: Sequence[torch.Tensor], dtype: torch.dtype) -> list[torch.Tensor]:
    """Tensors of a dtype in `CONVERTED` in another one of them, all others as they are.

    A tensor that appears twice stays one tensor.
    """
    done: dict[int, torch.Tensor] = {}
    for tensor in tensors:
        if id(tensor) not in done:
            if tensor.dtype in CONVERTED and tensor.dtype != dtype:
                changed = tensor.detach().to(dtype).requires_grad_(tensor.requires_grad)
                done[id(tensor)] = changed
            else:
                done[id(tensor)] = tensor
    return [done[id(tensor)] for tensor in tensors]


def arguments(values: object, dtype: torch.dtype | None) -> Arguments:
    """Take apart what ``get_inputs`` or ``get_init_inputs`` returned.

    Raises ``ValueError`` or ``TypeError`` for what cannot be passed between processes.
    """
    if not isinstance(values, list | tuple):
        raise TypeError(f"returned a {type(values).__name__}, not a list of arguments")
    node, tensors = flatten(list(values))
    for tensor in tensors:
        if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
            raise ValueError(f"a tensor of type {type(tensor).__name__} cannot be passed")
        if tensor.layout is not torch.strided or tensor.is_quantized:
            raise ValueError("sparse and quantised tensors cannot be passed")
    tensors = [tensor.resolve_conj().resolve_neg() for tensor in tensors]
    found = Arguments(node, tensors if dtype is None else convert(tensors, dtype))
    found.values()
    return found


def copy_into(
    flat: torch.Tensor, layouts: Sequence[TensorLayout], tensors: Sequence[torch.Tensor]
) -> None:
    """Copy tensors, bytes and strides, to the places that `kernelgym.sandbox.pool.place` planned.

    Whole spans of storage are copied, so that overlapping and expanded tensors need no thought.
    """
    for offset, part in parts(layouts, tensors):
        flat[offset : offset + len(part)].copy_(part)


def parts(
    layouts: Sequence[TensorLayout], tensors: Sequence[torch.Tensor]
) -> list[tuple[int, torch.Tensor]]:
    """The bytes of tensors, as views of their memory, and the offset planned for each."""
    found = []
    for layout, tensor in zip(layouts, tensors, strict=True):
        low, high = byte_extent(tensor)
        if high > low:
            storage = torch.empty(0, dtype=torch.uint8, device=tensor.device)
            storage.set_(tensor.untyped_storage())
            found.append((layout.offset, storage[low:high]))
    return found


def poison(flat: torch.Tensor, layouts: Sequence[TensorLayout], turn: int) -> int:
    """Overwrite the bytes in which outputs are expected; returns the byte used."""
    value = POISON[turn % len(POISON)]
    for layout in layouts:
        end = layout.offset + dense_bytes(layout)
        flat[layout.offset : end].fill_(value)
    return value


def still_poisoned(flat: torch.Tensor, layout: TensorLayout, value: int) -> bool:
    """Whether not one byte of an output has been written."""
    written = flat[layout.offset : layout.offset + dense_bytes(layout)]
    if not written.numel() or not bool((written[:4096] == value).all()):
        return False
    return bool((written == value).all())


def dense_bytes(layout: TensorLayout) -> int:
    """Bytes of a dense tensor."""
    count = 1
    for size in layout.shape:
        count *= size
    dtype: torch.dtype = getattr(torch, layout.dtype)
    return count * dtype.itemsize


def dense_size(tensors: Sequence[torch.Tensor]) -> int:
    """Bytes that dense copies of these tensors take in a pool."""
    return place_dense(tensors)[1]


def storage_bytes(tensors: Sequence[torch.Tensor]) -> int:
    """Bytes behind tensors; a storage that several share counts once."""
    sizes = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}
    return sum(sizes.values())
