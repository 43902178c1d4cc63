"""Search memory of a GPU for a secret that is given inverted, as `scan` does for host memory.

Flat tensors are compared in pieces on the device itself, inverted, so that the search does not
leave what it looks for behind. Needs torch, so the other attacks do not import this. Not searched:
shared memory and registers of a multiprocessor, which no kernel in Triton can read uninitialised.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import torch

_WORD_BYTES = 8
_PIECE_WORDS = 1 << 24


def count(flat: torch.Tensor, inverted: bytes) -> int:
    """How often the first 16 bytes of the secret, 8-byte aligned, are in a tensor's memory."""
    first, second = struct.unpack_from("<qq", inverted)
    usable = flat.numel() * flat.element_size() // _WORD_BYTES
    words = flat.reshape(-1).view(torch.uint8)[: usable * _WORD_BYTES].view(torch.int64)
    found = 0
    for start in range(0, usable, _PIECE_WORDS):
        piece = words[start : start + _PIECE_WORDS + 1].bitwise_not()
        found += int(((piece[:-1] == first) & (piece[1:] == second)).sum())
    return found


def storage_of(tensor: torch.Tensor) -> torch.Tensor:
    """Everything that lies in the memory that a tensor is a view of."""
    flat = torch.empty(0, dtype=torch.uint8, device=tensor.device)
    flat.set_(tensor.untyped_storage())
    return flat


def fresh(piece_bytes: int, pieces: int) -> Iterator[tuple[str, torch.Tensor]]:
    """Memory that was just got and never written: by cudaMalloc, and pinned memory of the host."""
    kept = []
    for _ in range(pieces):
        kept.append(torch.empty(piece_bytes, dtype=torch.uint8, device="cuda"))
        yield "fresh device memory", kept[-1]
    yield "fresh pinned memory", torch.empty(256 << 20, dtype=torch.uint8, pin_memory=True)


def fresh_mapped(piece_bytes: int) -> Iterator[tuple[str, torch.Tensor]]:
    """The same by the virtual memory API, as pools are made."""
    from kernelgym.cuda.driver import driver
    from kernelgym.cuda.vmm import VmmPool

    pool = VmmPool(driver(), piece_bytes)
    try:
        yield "fresh mapped memory", pool.flat
    finally:
        pool.close()
