"""Opens the pools of a Setup by device: the one place that knows how memory is shared.

``cpu`` maps a memfd. ``cuda`` will import a handle of the CUDA virtual-memory API.
"""

from __future__ import annotations

from kernelgym.errors import UsageError
from kernelgym.sandbox.pool import HostPool, Pool


def open_pool(device: str, size: int, fd: int) -> Pool:
    """Map the pool behind ``fd``, which is taken over."""
    if device == "cpu":
        return HostPool(size, fd)
    raise UsageError(f"no pools on device {device!r}")
