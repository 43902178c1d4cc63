"""The primary context of a device, and what the device says about itself.

torch and the driver API share the primary context, so memory mapped here is memory to torch.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable
from dataclasses import dataclass

import torch

from kernelgym.cuda.driver import CudaError, Driver
from kernelgym.cuda.driver import driver as process_driver

MAX_CONNECTIONS = "1"
"""Hardware queues of a context. One makes contexts cheap to create, and lets a parked stream hold
back every other stream of its context."""
ENVIRONMENT = {"CUDA_DEVICE_MAX_CONNECTIONS": MAX_CONNECTIONS, "CUDA_MODULE_LOADING": "LAZY"}
"""Variables of every process that makes a context, set before it does."""


@dataclass(frozen=True)
class Device:
    """Facts about one GPU."""

    index: int
    name: str
    uuid: str
    capability: int
    """90 = sm_90."""
    multiprocessors: int
    l2_bytes: int
    memory_bytes: int
    peak_bytes_per_s: float
    """Memory clock times bus width; 0 where the driver does not say."""
    driver_version: int
    """13000 = CUDA 13.0."""


def activate(driver: Driver, index: int = 0) -> Device:
    """Make the device's primary context current, here and for torch; describe the device."""
    driver.call("cuInit", 0)
    handle = driver.call("cuDeviceGet", index)
    context = driver.call("cuDevicePrimaryCtxRetain", handle)
    driver.call("cuCtxSetCurrent", context)
    return describe(driver, handle, index)


def start_torch(index: int = 0) -> None:
    """Let torch use the context; the first allocation is made here, outside anything timed."""
    torch.cuda.set_device(index)
    torch.zeros(1, device="cuda")
    torch.cuda.synchronize()


def reserve(large_bytes: int, small_bytes: int = 32 << 20) -> None:
    """Let torch's allocator take memory now and keep it: later allocations then ask nobody.

    Asking the driver waits for whoever makes or drops a context meanwhile, tenths of a second.
    What cannot be had is not reserved.
    """
    with contextlib.suppress(torch.OutOfMemoryError):
        blocks = [torch.empty(large_bytes, dtype=torch.uint8, device="cuda")]
        blocks += [
            torch.empty(_SMALL_BLOCK, dtype=torch.uint8, device="cuda")
            for _ in range(small_bytes // _SMALL_BLOCK)
        ]


_SMALL_BLOCK = 1 << 20
"""The allocator's own pool for small tensors takes no larger ones."""
_IN_USE: list[Device] = []


def use() -> Device:
    """The GPU of this process, context and torch included; made on first use.

    Always the first visible one: which that is, the environment says.
    """
    if not _IN_USE:
        _IN_USE.append(activate(process_driver()))
        start_torch()
    return _IN_USE[0]


def describe(driver: Driver, handle: object, index: int) -> Device:
    """Ask the driver for the facts."""
    names = driver.api.CUdevice_attribute

    def attribute(name: str) -> int:
        return int(driver.call("cuDeviceGetAttribute", getattr(names, name), handle))

    major = attribute("CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR")
    minor = attribute("CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR")
    require_virtual_memory(attribute)
    clock_khz = attribute("CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE")
    bus_bits = attribute("CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH")
    return Device(
        index=index,
        name=_text(driver.call("cuDeviceGetName", 256, handle)),
        uuid="GPU-" + str(uuid.UUID(bytes=bytes(driver.call("cuDeviceGetUuid", handle).bytes))),
        capability=10 * major + minor,
        multiprocessors=attribute("CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT"),
        l2_bytes=attribute("CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE"),
        memory_bytes=int(driver.call("cuMemGetInfo")[1]),
        peak_bytes_per_s=2 * clock_khz * 1e3 * bus_bits / 8,
        driver_version=int(driver.call("cuDriverGetVersion")),
    )


def require_virtual_memory(attribute: Callable[[str], int]) -> None:
    """Raise `CudaError` for a device that cannot share memory as a file descriptor."""
    for name in (
        "CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED",
        "CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED",
    ):
        if not attribute(name):
            raise CudaError("cuDeviceGetAttribute", 0, f"{name} is 0: no memory can be shared")


def _text(value: bytes | str) -> str:
    data = value if isinstance(value, bytes) else value.encode()
    return data.split(b"\0")[0].decode(errors="replace")
