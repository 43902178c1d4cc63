"""A stand-in for ``cuda.bindings.driver``: the same functions, on host memory and threads.

Device addresses are host addresses, a shareable handle is a memfd, a stream is a thread that works
off a queue (so a parked stream really waits), and our three kernels are Python. What it refuses is
what the driver would refuse as far as our code depends on it: sizes that are no multiple of the
granularity, access to what is not mapped, double frees. It says nothing about speed.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import threading
import time
from types import SimpleNamespace

import torch
from cuda_streams import OK, CUresult, Refused, Stream

from kernelgym.cuda.driver import Driver

GRANULARITY = 2 << 20
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_MAP_NORESERVE, _MAP_FIXED = 0x4000, 0x10


def _wrap_status(function):
    def checked(self, *arguments):
        self.log.append(function.__name__)
        code = self.failures.pop(function.__name__, None)
        if code is not None:
            return (CUresult(code),)
        try:
            value = function(self, *arguments)
        except Refused as refused:
            return (refused.code,)
        if value is None:
            return (OK,)
        return (OK, *value) if isinstance(value, tuple) else (OK, value)

    return checked


class Api:
    """Everything of the module that the package uses."""

    CUresult = CUresult
    CU_MEMHOSTREGISTER_PORTABLE = 1
    CU_MEMHOSTREGISTER_DEVICEMAP = 2
    CUmemAllocationType = SimpleNamespace(CU_MEM_ALLOCATION_TYPE_PINNED=1)
    CUmemLocationType = SimpleNamespace(CU_MEM_LOCATION_TYPE_DEVICE=1)
    CUmemAllocationHandleType = SimpleNamespace(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR=1)
    CUmemAccess_flags = SimpleNamespace(CU_MEM_ACCESS_FLAGS_PROT_READWRITE=3)
    CUmemAllocationGranularity_flags = SimpleNamespace(CU_MEM_ALLOC_GRANULARITY_RECOMMENDED=1)
    CUstreamWaitValue_flags = SimpleNamespace(CU_STREAM_WAIT_VALUE_GEQ=0)
    CUstreamWriteValue_flags = SimpleNamespace(CU_STREAM_WRITE_VALUE_DEFAULT=0)
    CUstream_flags = SimpleNamespace(CU_STREAM_NON_BLOCKING=1)
    CUevent_flags = SimpleNamespace(CU_EVENT_DEFAULT=0)
    CUdevice_attribute = SimpleNamespace(
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR=9,
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR=0,
        CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT=132,
        CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE=1 << 20,
        CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE=3_201_000,
        CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH=6144,
        CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED=1,
        CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED=1,
    )

    def __init__(self):
        self.log = []
        self.failures = {}
        self.streams = {0: Stream()}
        self.events = {}
        self.reserved = {}
        self.mapped = {}
        self.handles = {}
        self.memory = {}
        self.registered = set()
        self.functions = {}
        self.launches = []
        self._next = 1000

    def _id(self):
        self._next += 1
        return self._next

    CUmemAllocationProp = staticmethod(lambda: SimpleNamespace(location=SimpleNamespace()))
    CUmemAccessDesc = staticmethod(lambda: SimpleNamespace(location=SimpleNamespace()))

    # --- device

    @_wrap_status
    def cuInit(self, flags):
        return None

    @_wrap_status
    def cuDeviceGet(self, index):
        if index:
            raise Refused
        return 0

    @_wrap_status
    def cuDevicePrimaryCtxRetain(self, device):
        return 77

    @_wrap_status
    def cuCtxSetCurrent(self, context):
        assert context == 77

    @_wrap_status
    def cuDeviceGetAttribute(self, value, device):
        return value

    @_wrap_status
    def cuDeviceGetName(self, length, device):
        return b"stand-in, no GPU\0".ljust(length, b"\0")

    @_wrap_status
    def cuDeviceGetUuid(self, device):
        return SimpleNamespace(bytes=bytes(range(16)))

    @_wrap_status
    def cuDriverGetVersion(self):
        return 13000

    @_wrap_status
    def cuMemGetInfo(self):
        return 1 << 30, 2 << 30

    @_wrap_status
    def cuCtxResetPersistingL2Cache(self):
        return None

    @_wrap_status
    def cuCtxSynchronize(self):
        for stream in list(self.streams.values()):
            stream.drain()

    # --- virtual memory

    @_wrap_status
    def cuMemGetAllocationGranularity(self, properties, option):
        assert properties.requestedHandleTypes == 1
        return GRANULARITY

    @_wrap_status
    def cuMemCreate(self, size, properties, flags):
        if size % GRANULARITY or flags:
            raise Refused
        fd = os.memfd_create("standin-device-memory")
        os.ftruncate(fd, size)
        return self._handle(fd)

    def _handle(self, fd):
        handle = self._id()
        self.handles[handle] = fd
        return handle

    @_wrap_status
    def cuMemExportToShareableHandle(self, handle, kind, flags):
        assert (kind, flags) == (1, 0)
        return os.dup(self.handles[handle])

    @_wrap_status
    def cuMemImportFromShareableHandle(self, fd, kind):
        assert kind == 1
        try:
            return self._handle(os.dup(fd))
        except OSError:
            raise Refused from None

    @_wrap_status
    def cuMemAddressReserve(self, size, alignment, address, flags):
        if size % GRANULARITY:
            raise Refused
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
        place = _libc.mmap(None, size, 0, flags, -1, 0)
        self.reserved[place] = size
        return place

    @_wrap_status
    def cuMemMap(self, address, size, offset, handle, flags):
        fd = self.handles[handle]
        if self.reserved.get(address) != size or size > os.fstat(fd).st_size:
            raise Refused
        protection = mmap.PROT_READ | mmap.PROT_WRITE
        place = _libc.mmap(address, size, protection, mmap.MAP_SHARED | _MAP_FIXED, fd, offset)
        assert place == address
        self.mapped[address] = False

    @_wrap_status
    def cuMemSetAccess(self, address, size, descriptions, count):
        assert len(descriptions) == count == 1
        assert descriptions[0].flags == 3
        self.mapped[address] = True

    @_wrap_status
    def cuMemUnmap(self, address, size):
        if self.mapped.pop(address, None) is None:
            raise Refused
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE | _MAP_FIXED
        _libc.mmap(address, size, 0, flags, -1, 0)

    @_wrap_status
    def cuMemAddressFree(self, address, size):
        if self.reserved.pop(address, None) != size or address in self.mapped:
            raise Refused
        _libc.munmap(address, size)

    @_wrap_status
    def cuMemRelease(self, handle):
        os.close(self.handles.pop(handle))

    # --- plain memory

    @_wrap_status
    def cuMemAlloc(self, size):
        block = ctypes.create_string_buffer(size)
        self.memory[ctypes.addressof(block)] = block
        return ctypes.addressof(block)

    @_wrap_status
    def cuMemFree(self, address):
        if self.memory.pop(address, None) is None:
            raise Refused

    @_wrap_status
    def cuMemHostAlloc(self, size, flags):
        block = ctypes.create_string_buffer(size)
        self.memory[ctypes.addressof(block)] = block
        return ctypes.addressof(block)

    @_wrap_status
    def cuMemFreeHost(self, address):
        if self.memory.pop(address, None) is None:
            raise Refused

    @_wrap_status
    def cuMemHostRegister(self, address, size, flags):
        if flags != 3 or address % mmap.PAGESIZE or address in self.registered:
            raise Refused
        self.registered.add(address)

    @_wrap_status
    def cuMemHostUnregister(self, address):
        if address not in self.registered:
            raise Refused
        self.registered.discard(address)

    @_wrap_status
    def cuMemHostGetDevicePointer(self, address, flags):
        assert address in self.registered
        return address

    # --- streams

    @_wrap_status
    def cuStreamCreate(self, flags):
        handle = self._id()
        self.streams[handle] = Stream()
        return handle

    @_wrap_status
    def cuStreamDestroy(self, stream):
        del self.streams[stream]

    @_wrap_status
    def cuStreamSynchronize(self, stream):
        self.streams[stream].drain()

    @_wrap_status
    def cuStreamWaitValue32(self, stream, address, value, flags):
        assert flags == 0
        word = ctypes.c_uint32.from_address(address)

        def wait():
            while (word.value - value) % (1 << 32) >= 1 << 31:
                time.sleep(0.0002)

        self.streams[stream].push(wait)

    @_wrap_status
    def cuStreamWriteValue32(self, stream, address, value, flags):
        word = ctypes.c_uint32.from_address(address)
        self.streams[stream].push(lambda: setattr(word, "value", value))

    @_wrap_status
    def cuMemsetD32Async(self, address, value, count, stream):
        self.streams[stream].push(lambda: None)

    @_wrap_status
    def cuMemcpyDtoHAsync(self, target, source, size, stream):
        self.streams[stream].push(lambda: ctypes.memmove(target, source, size))

    # --- events

    @_wrap_status
    def cuEventCreate(self, flags):
        event = self._id()
        self.events[event] = None
        return event

    @_wrap_status
    def cuEventRecord(self, event, stream):
        done = threading.Event()
        entry = {"done": done, "at": 0.0}
        self.events[event] = entry

        def record():
            entry["at"] = time.perf_counter()
            done.set()

        self.streams[stream].push(record)

    @_wrap_status
    def cuEventSynchronize(self, event):
        self.events[event]["done"].wait()

    @_wrap_status
    def cuEventElapsedTime(self, start, end):
        if not self.events[end]["done"].is_set():
            raise Refused(CUresult.CUDA_ERROR_NOT_READY)
        return (self.events[end]["at"] - self.events[start]["at"]) * 1e3

    # --- kernels

    @_wrap_status
    def cuModuleLoadData(self, image):
        assert image.endswith(b"\0")
        return image

    @_wrap_status
    def cuModuleGetFunction(self, module, name):
        if b".entry " + name + b"(" not in module:
            raise Refused(CUresult.CUDA_ERROR_NOT_FOUND)
        return name.decode()

    @_wrap_status
    def cuLaunchKernel(self, function, gx, gy, gz, bx, by, bz, shared, stream, params, extra):
        count = {"kernelgym_tick": 1, "kernelgym_spin": 2, "kernelgym_copy": 3}[function]
        cells = (ctypes.c_void_p * count).from_address(params)
        values = [ctypes.c_uint64.from_address(cell).value for cell in cells]
        self.launches.append((function, (gx, gy, gz), (bx, by, bz), values))
        self.streams[stream].push(lambda: self._run(function, values))

    def _run(self, function, values):
        if function == "kernelgym_copy":
            ctypes.memmove(values[0], values[1], 16 * values[2])
            return
        if function == "kernelgym_spin":
            time.sleep(values[1] / 1e9)
        ctypes.c_uint32.from_address(values[0]).value = 1


class StandInDriver(Driver):
    """A driver whose tensors lie in host memory."""

    def __init__(self, api=None):
        super().__init__(Api() if api is None else api)

    def tensor(self, address, size):
        assert self.api.mapped.get(address, True), "access was never set"
        return torch.frombuffer((ctypes.c_uint8 * size).from_address(address), dtype=torch.uint8)

    def stream(self):
        return 0

    def enqueue(self, job):
        """Let ``job`` run on the default stream, as a kernel would."""
        self.api.streams[0].push(job)
