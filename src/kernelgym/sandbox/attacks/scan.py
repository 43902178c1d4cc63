"""Search all memory of the calling process for a secret.

The secret is given inverted (every bit flipped), and memory is inverted before it is compared, so
that the search does not find its own question. Memory is read through a pipe: where nothing can be
read the kernel says EFAULT, and no signal comes. Device memory is not searched.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from pathlib import Path

_CHUNK_BYTES = 1 << 16
_INVERT = bytes(255 - value for value in range(256))
_UNREADABLE = ("[vvar]", "[vvar_vclock]", "[vsyscall]")


def invert(secret: bytes) -> bytes:
    """A secret in the form that `find` takes; its argument lies in memory, so take care of it."""
    return secret.translate(_INVERT)


def find(inverted: bytes) -> list[str]:
    """Mappings of this process that hold the secret whose inverse is given."""
    libc = ctypes.CDLL(None, use_errno=True)
    read_end, write_end = os.pipe()
    found = []
    try:
        for start, end, name in _mappings():
            overlap = len(inverted) - 1
            tail = b""
            for address in range(start, end, _CHUNK_BYTES):
                size = min(_CHUNK_BYTES, end - address)
                got = libc.write(write_end, ctypes.c_void_p(address), ctypes.c_size_t(size))
                if got <= 0:
                    tail = b""
                    continue
                data = tail + os.read(read_end, got).translate(_INVERT)
                if inverted in data:
                    found.append(f"secret in {name or 'anonymous memory'} at {address:#x}")
                    break
                tail = data[-overlap:] if overlap else b""
                del data
    finally:
        os.close(read_end)
        os.close(write_end)
    return found


def _mappings() -> Iterator[tuple[int, int, str]]:
    for line in Path("/proc/self/maps").read_text().splitlines():
        area, mode, _, _, _, *name = line.split(maxsplit=5)
        if mode.startswith("r") and (not name or name[0] not in _UNREADABLE):
            start, _, end = area.partition("-")
            yield int(start, 16), int(end, 16), name[0] if name else ""
