"""Device memory that two processes map: made by one, handed to the other as a file descriptor.

    judge      cuMemCreate -> map -> cuMemExportToShareableHandle -> descriptor, sent with
    SCM_RIGHTS candidate  cuMemImportFromShareableHandle -> map

`VmmPool` is a `kernelgym.sandbox.pool.Pool`. One exported descriptor serves any number of
processes, also later ones. A mapping cannot be revoked, and the importer chooses its own access
rights: nothing secret may lie in a pool. Memory goes back to the device when the last process has
let go.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any

import torch

from kernelgym.cuda.driver import Driver


def allocation_properties(driver: Driver, device: int) -> Any:
    """Pinned memory of one device that can be exported as a POSIX file descriptor."""
    api = driver.api
    properties = api.CUmemAllocationProp()
    properties.type = api.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    properties.location.type = api.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    properties.location.id = device
    properties.requestedHandleTypes = _handle_type(driver)
    return properties


def granularity(driver: Driver, device: int = 0) -> int:
    """Sizes of allocations are multiples of this many bytes."""
    flag = driver.api.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_RECOMMENDED
    properties = allocation_properties(driver, device)
    return int(driver.call("cuMemGetAllocationGranularity", properties, flag))


def _handle_type(driver: Driver) -> Any:
    return driver.api.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR


class VmmPool:
    """One allocation, mapped here, as a flat tensor."""

    flat: torch.Tensor

    def __init__(
        self, driver: Driver, size: int, fd: int | None = None, *, device: int = 0
    ) -> None:
        """Create at least ``size`` bytes, or map those behind ``fd`` (taken over, and closed)."""
        unit = granularity(driver, device)
        self._driver = driver
        self.size = max(1, -(-size // unit)) * unit
        self._fd = -1
        with contextlib.ExitStack() as undo:
            self._handle = self._obtain(fd, device)
            undo.callback(driver.call, "cuMemRelease", self._handle)
            self.address = int(driver.call("cuMemAddressReserve", self.size, 0, 0, 0))
            undo.callback(driver.call, "cuMemAddressFree", self.address, self.size)
            driver.call("cuMemMap", self.address, self.size, 0, self._handle, 0)
            undo.callback(driver.call, "cuMemUnmap", self.address, self.size)
            driver.call("cuMemSetAccess", self.address, self.size, [self._access(device)], 1)
            self.flat = driver.tensor(self.address, self.size)
            self._undo = undo.pop_all()

    def _obtain(self, fd: int | None, device: int) -> Any:
        if fd is None:
            properties = allocation_properties(self._driver, device)
            return self._driver.call("cuMemCreate", self.size, properties, 0)
        try:
            return self._driver.call(
                "cuMemImportFromShareableHandle", fd, _handle_type(self._driver)
            )
        finally:
            os.close(fd)

    def _access(self, device: int) -> Any:
        api = self._driver.api
        access = api.CUmemAccessDesc()
        access.location.type = api.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        access.location.id = device
        access.flags = api.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        return access

    def fileno(self) -> int:
        """Descriptor of the allocation; exported on first use, closed with the pool."""
        if self._fd < 0:
            kind = _handle_type(self._driver)
            exported = self._driver.call("cuMemExportToShareableHandle", self._handle, kind, 0)
            self._fd = int(exported)
        return self._fd

    def close(self) -> None:
        """Unmap and release. Tensors over the pool must not be used any more."""
        self.flat = torch.empty(0, dtype=torch.uint8)
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        self._undo.close()
