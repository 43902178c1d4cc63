"""A page of host memory that the CPUs and the GPU contexts of two processes see.

The judge makes it (`HostPage`), hands its descriptor to the candidate, and both register it with
the GPU (`DevicePage`). Streams can wait until a slot has reached a value and write values into
slots; the CPU reads and writes slots directly. Comparison is cyclic greater-or-equal, as the
hardware does it, so values only ever grow.

Both sides can write every slot: what stands there is a claim of whoever may have written it.
"""

from __future__ import annotations

import ctypes
import enum
import mmap
import os
import time
from collections.abc import Callable

from kernelgym.cuda.driver import Driver
from kernelgym.sandbox import shared_file

PAGE_BYTES = mmap.PAGESIZE
_WRAP = 1 << 32


class Slot(enum.IntEnum):
    """Words of the page, each in a cache line of its own."""

    FLAG = 0
    """Raised by the judge: the parked stream may go on."""
    START = 16
    """The call is about to start."""
    END = 32
    """The call is over."""
    COPIED = 48
    """Its outputs lie in the output pool."""
    RAISED = 64
    """FLAG is up; only on a page of the judge's own, where nobody else can write it."""


class PageTimeout(Exception):
    """A slot did not reach its value in time."""


class HostPage:
    """The page in one process."""

    def __init__(self, fd: int | None = None) -> None:
        """Make a page, or map the one behind ``fd`` (taken over)."""
        if fd is None:
            fd = shared_file.make("kernelgym-page", PAGE_BYTES)
        self._fd = fd
        self._map = mmap.mmap(fd, PAGE_BYTES)
        self.words = (ctypes.c_uint32 * (PAGE_BYTES // 4)).from_buffer(self._map)

    @property
    def address(self) -> int:
        """Where the page lies in this process."""
        return ctypes.addressof(self.words)

    def fileno(self) -> int:
        """Descriptor by which another process can map the page."""
        return self._fd

    def read(self, slot: int) -> int:
        """Value of a slot, now."""
        return int(self.words[slot])

    def set(self, slot: int, value: int) -> None:
        """Store a value by the CPU."""
        self.words[slot] = value % _WRAP

    def reached(self, slot: int, value: int) -> bool:
        """Whether the slot holds ``value`` or a later one."""
        return (self.words[slot] - value) % _WRAP < _WRAP // 2

    def poll(
        self,
        slot: int,
        value: int,
        deadline_ns: int,
        alive: Callable[[], bool] = lambda: True,
    ) -> int:
        """Spin until the slot has reached ``value``; the time (`perf_counter_ns`) it was seen.

        Raises `PageTimeout` at the deadline, or when ``alive`` (asked about once a millisecond)
        says that whoever should write it is gone.
        """
        words, half, clock = self.words, _WRAP // 2, time.perf_counter_ns
        ask_again = clock() + 1_000_000
        while (words[slot] - value) % _WRAP >= half:
            now = clock()
            if now > deadline_ns:
                raise PageTimeout(f"slot {slot} did not reach {value}")
            if now > ask_again:
                if not alive():
                    raise PageTimeout("the writer is gone")
                ask_again = clock() + 1_000_000
        return clock()

    def close(self) -> None:
        """Close the descriptor; the mapping goes with the object."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class DevicePage(HostPage):
    """The page, registered with the GPU: streams of this process's context can use it."""

    def __init__(self, driver: Driver, fd: int | None = None) -> None:
        super().__init__(fd)
        self._driver = driver
        api = driver.api
        flags = int(api.CU_MEMHOSTREGISTER_PORTABLE) | int(api.CU_MEMHOSTREGISTER_DEVICEMAP)
        driver.call("cuMemHostRegister", self.address, PAGE_BYTES, flags)
        self._device_address = int(driver.call("cuMemHostGetDevicePointer", self.address, 0))

    def wait(self, stream: int, slot: int, value: int) -> None:
        """Queue: hold the stream until the slot has reached ``value``."""
        geq = int(self._driver.api.CUstreamWaitValue_flags.CU_STREAM_WAIT_VALUE_GEQ)
        where = self._device_address + 4 * slot
        self._driver.call("cuStreamWaitValue32", stream, where, value % _WRAP, geq)

    def write(self, stream: int, slot: int, value: int) -> None:
        """Queue: store ``value`` once everything before it in the stream is done."""
        default = int(self._driver.api.CUstreamWriteValue_flags.CU_STREAM_WRITE_VALUE_DEFAULT)
        where = self._device_address + 4 * slot
        self._driver.call("cuStreamWriteValue32", stream, where, value % _WRAP, default)

    def close(self) -> None:
        """Take the page from the GPU and close it."""
        if self._fd >= 0:
            self._driver.call("cuMemHostUnregister", self.address)
        super().close()
