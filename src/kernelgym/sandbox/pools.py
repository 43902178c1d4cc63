"""Opens the pools of a Setup by device: the one place that knows how memory is shared.

``cpu`` maps a memfd. ``cuda`` imports a handle of the CUDA virtual-memory API; the first one makes
the process's context (`kernelgym.cuda.device`).
"""

from __future__ import annotations

from kernelgym.errors import UsageError
from kernelgym.sandbox.pool import HostPool, Pool


def open_pool(device: str, size: int, fd: int) -> Pool:
    """Map the pool behind ``fd``, which is taken over."""
    if device == "cpu":
        return HostPool(size, fd)
    if device == "cuda":
        from kernelgym.cuda import device as gpu
        from kernelgym.cuda.driver import driver
        from kernelgym.cuda.vmm import VmmPool

        gpu.use()
        return VmmPool(driver(), size, fd)
    raise UsageError(f"no pools on device {device!r}")
