"""Attacks by quantity: memory of every kind, processes, files.

Each stops at a bound given by the caller, so that it ends also where nothing else stops it.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import time
from collections.abc import Callable

from kernelgym.sandbox.attacks.target import idle_child

_CHUNK_BYTES = 4 << 20


def private(bound_bytes: int) -> int:
    """Touch private memory; bytes that were got (the process may not live to say so)."""
    return _hoard(bound_bytes, lambda: bytearray(os.urandom(1) * _CHUNK_BYTES))


def shared(bound_bytes: int) -> int:
    """Touch anonymous shared memory."""

    def chunk() -> object:
        memory = mmap.mmap(-1, _CHUNK_BYTES)
        memory.write(b"x" * _CHUNK_BYTES)
        return memory

    return _hoard(bound_bytes, chunk)


def memfd(bound_bytes: int) -> int:
    """Write anonymous files without mapping them."""

    def chunk() -> object:
        fd = os.memfd_create("hoard")
        os.write(fd, b"x" * _CHUNK_BYTES)
        return fd

    return _hoard(bound_bytes, chunk)


def tmpfs(bound_bytes: int, directory: str) -> int:
    """Fill a directory that lies in memory."""
    counter = iter(range(1 << 30))

    def chunk() -> object:
        path = os.path.join(directory, f"hoard-{os.getpid()}-{next(counter)}")
        with open(path, "wb") as file:
            file.write(b"x" * _CHUNK_BYTES)
        return path

    try:
        return _hoard(bound_bytes, chunk)
    finally:
        for name in os.listdir(directory):
            if name.startswith(f"hoard-{os.getpid()}-"):
                with contextlib.suppress(OSError):
                    os.unlink(os.path.join(directory, name))


def _hoard(bound_bytes: int, chunk: Callable[[], object]) -> int:
    kept: list[object] = []
    while len(kept) * _CHUNK_BYTES < bound_bytes:
        try:
            kept.append(chunk())
        except (OSError, MemoryError):
            break
    time.sleep(0.2)  # whoever polls gets a chance to see it
    return len(kept) * _CHUNK_BYTES


def forks(bound: int) -> int:
    """Children alive at once, of at most ``bound``."""
    children: list[tuple[int, int]] = []
    with contextlib.suppress(OSError):
        while len(children) < bound:
            children.append(idle_child())
    time.sleep(0.2)
    for _, hold in children:
        os.close(hold)
    for pid, _ in children:
        os.waitpid(pid, 0)
    return len(children)


def fill_disk(bound_bytes: int, directory: str) -> int:
    """Bytes that one directory takes before it is full."""
    return tmpfs(bound_bytes, directory)
