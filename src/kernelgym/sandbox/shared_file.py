"""Anonymous files that two processes map, and that neither can make smaller.

Who touches a page behind the end of a file dies of SIGBUS: a candidate that could shorten a pool
would kill the judge that looks at it.
"""

from __future__ import annotations

import fcntl
import os

_FIXED = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


def make(name: str, size: int) -> int:
    """Descriptor of a file of ``size`` bytes, whose size is final."""
    fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(fd, size)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _FIXED)
    except OSError:
        os.close(fd)
        raise
    return fd
