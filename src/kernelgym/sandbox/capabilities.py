"""Linux capabilities: reading the calling process's, and giving them up for good."""

from __future__ import annotations

import contextlib
import ctypes
import errno
from collections.abc import Iterable

from kernelgym.sandbox import linux

NUMBERS = {"KILL": 5, "SETGID": 6, "SETUID": 7, "SETPCAP": 8, "SYS_PTRACE": 19, "SYS_ADMIN": 21}
"""Those that the jail asks about by name."""

_VERSION_3 = 0x20080522
_SECUREBITS_LOCKED = 0b1110_1111
"""NOROOT, NO_SETUID_FIXUP, NO_CAP_AMBIENT_RAISE, each with its lock, and the lock of KEEP_CAPS."""


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Words(ctypes.Structure):
    _fields_ = tuple(
        (f"{kind}{word}", ctypes.c_uint32)
        for word in (0, 1)
        for kind in ("effective", "permitted", "inheritable")
    )


def effective() -> int:
    """Effective capabilities of this process, as a bit mask."""
    words = _Words()
    linux.syscall("capget", _Header(version=_VERSION_3), words)
    return int(words.effective0) | int(words.effective1) << 32


def has(name: str) -> bool:
    """Whether this process can use a capability now."""
    return bool(effective() >> NUMBERS[name] & 1)


def set_exactly(names: Iterable[str]) -> None:
    """Keep these capabilities (that are held) and no other, none of them inheritable."""
    mask = sum(1 << NUMBERS[name] for name in names) & effective()
    low, high = mask & 0xFFFFFFFF, mask >> 32
    words = _Words(effective0=low, permitted0=low, effective1=high, permitted1=high)
    linux.syscall("capset", _Header(version=_VERSION_3), words)


def empty_bounding_set() -> bool:
    """Give up ever getting a capability back by exec; whether that was allowed."""
    if not has("SETPCAP"):
        return False
    for number in range(64):
        try:
            linux.prctl(linux.PR_CAPBSET_DROP, number)
        except OSError as error:
            if error.errno == errno.EINVAL:  # past the last that this kernel knows
                break
            raise
    return True


def clear_inheritance() -> None:
    """Make sure that no exec and no change of user ever gives a capability back."""
    with contextlib.suppress(OSError):  # kernels before 4.3 have no ambient set
        linux.prctl(linux.PR_CAP_AMBIENT, linux.PR_CAP_AMBIENT_CLEAR_ALL)
    if empty_bounding_set():
        linux.prctl(linux.PR_SET_SECUREBITS, _SECUREBITS_LOCKED)
