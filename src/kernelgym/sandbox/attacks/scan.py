"""Search all memory of the calling process for a secret.

The secret is given inverted (every bit flipped), and memory is inverted before it is compared, so
that the search does not find its own question. Memory is read through a pipe: where nothing can be
read the kernel says EFAULT, and no signal comes. Not searched: memory of a GPU (`device_scan`), and
places outside the process (`places`).
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from pathlib import Path

_CHUNK_BYTES = 1 << 16
_INVERT = bytes(255 - value for value in range(256))
_UNREADABLE = ("[vvar]", "[vvar_vclock]", "[vsyscall]")
_DEVICES = "/dev/nvidia"


def invert(secret: bytes) -> bytes:
    """A secret in the form that `find` takes; its argument lies in memory, so take care of it."""
    return secret.translate(_INVERT)


def holds(data: bytes, inverted: bytes) -> bool:
    """Whether ``data`` holds the secret whose inverse is given."""
    return inverted in data.translate(_INVERT)


def find(inverted: bytes, *, constants: bool = True, drivers: bool | None = None) -> list[str]:
    """Mappings of this process that hold the secret whose inverse is given.

    ``constants``: also files that are mapped and cannot be written to. ``drivers``: only (True) or
    no (False) mappings of a GPU's driver, which are memory of the device or of its queues.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    read_end, write_end = os.pipe()
    found = []
    try:
        for start, end, mode, name in _mappings():
            is_constant = name.startswith("/") and "w" not in mode
            is_driver = name.startswith(_DEVICES)
            if (is_constant and not constants) or drivers not in (None, is_driver):
                continue
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


def _mappings() -> Iterator[tuple[int, int, str, str]]:
    for line in Path("/proc/self/maps").read_text().splitlines():
        area, mode, _, _, _, *name = line.split(maxsplit=5)
        if mode.startswith("r") and (not name or name[0] not in _UNREADABLE):
            start, _, end = area.partition("-")
            yield int(start, 16), int(end, 16), mode, name[0] if name else ""
