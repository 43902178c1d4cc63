"""CUPTI's activity API through ctypes: what the device did, one record a kernel, copy and fill.

The library is the one that torch brought (or has already loaded), so its version fits the driver
support of that torch. Starting it costs 11-17 ms; recording costs about 1 us a launch and leaves
the times of kernels unchanged.

A self-report of the process it runs in: one call (`cuptiActivityDisable`) silences it without a
trace. What it says is checked against the judge's clock (`kernelgym.trace.profile`). Not covered:
counters, PC sampling, several users of CUPTI in one process (torch.profiler included: the last one
to register its callbacks gets the buffers).
"""

from __future__ import annotations

import contextlib
import ctypes
import glob
import importlib.util
import os
from collections.abc import Iterator, Sequence
from typing import Any

from kernelgym.errors import ServiceError
from kernelgym.trace import cupti_layout as layout
from kernelgym.trace.cupti_layout import Activity, ActivityKind, Link

BUFFER_BYTES = 1 << 20
BUFFERS = 4
MAX_RECORDS = 200_000
_CUSTOM = 3
"""CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0."""
_FLUSH_FORCED = 1

DEVICE_KINDS = (ActivityKind.CONCURRENT_KERNEL, ActivityKind.MEMCPY, ActivityKind.MEMSET)
LINK_KINDS = (ActivityKind.EXTERNAL_CORRELATION, ActivityKind.RUNTIME, ActivityKind.DRIVER)
"""External ids come only with the API kinds on, too."""


class CuptiUnavailable(ServiceError):
    """No usable CUPTI: coverage cannot be measured, and that is said."""


def library_paths() -> list[str]:
    """Where CUPTI may lie, best first: already loaded, torch's wheels, Triton's, the system's."""
    found = _already_loaded()
    for package, pattern in (
        ("nvidia", "cu13/lib/libcupti.so.1[0-9]*"),
        ("nvidia", "cuda_cupti/lib/libcupti.so.1[0-9]*"),
        ("triton", "backends/nvidia/lib/cupti/libcupti.so*"),
    ):
        for root in _package_directories(package):
            found += sorted(glob.glob(os.path.join(root, pattern)), reverse=True)
    return [*dict.fromkeys(found), "libcupti.so.13", "libcupti.so.12"]


def _already_loaded() -> list[str]:
    try:
        with open("/proc/self/maps") as maps:
            paths = {line.split()[-1] for line in maps if "libcupti.so" in line}
    except OSError:
        return []
    return sorted(paths)


def _package_directories(name: str) -> list[str]:
    spec = importlib.util.find_spec(name)
    if spec is None or spec.submodule_search_locations is None:
        return []
    return list(spec.submodule_search_locations)


def load_library(paths: Sequence[str] | None = None) -> Any:
    """The first library that loads and whose layouts are known; raises `CuptiUnavailable`."""
    refusals = []
    for path in library_paths() if paths is None else paths:
        try:
            library = ctypes.CDLL(path)
        except OSError as error:
            refusals.append(str(error))
            continue
        version = ctypes.c_uint32()
        library.cuptiGetVersion(ctypes.byref(version))
        if layout.is_known(version.value):
            return library
        refusals.append(f"{path}: API version {version.value} is not known here")
    raise CuptiUnavailable("no CUPTI: " + "; ".join(refusals), hint="pip install 'drkernel[gpu]'")


_REQUESTED = ctypes.CFUNCTYPE(
    None,
    ctypes.POINTER(ctypes.c_void_p),
    ctypes.POINTER(ctypes.c_size_t),
    ctypes.POINTER(ctypes.c_size_t),
)
_COMPLETED = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t
)


class Cupti:
    """Buffers and switches. One a process."""

    def __init__(self, library: Any = None) -> None:
        self._library = load_library() if library is None else library
        self._free = [_aligned() for _ in range(BUFFERS)]
        self._lent: dict[int, Any] = {}
        self._full: list[tuple[int, int]] = []
        self.lost = False
        """Records were dropped, or there were more than are kept."""
        self._callbacks = (_REQUESTED(self._lend), _COMPLETED(self._take_back))
        self._check("cuptiActivityRegisterCallbacks", *self._callbacks)

    def _check(self, name: str, *arguments: Any) -> None:
        status = getattr(self._library, name)(*arguments)
        if status:
            raise CuptiUnavailable(f"{name} returned {status}")

    def _lend(self, buffer: Any, size: Any, most: Any) -> None:
        memory, address = self._free.pop() if self._free else _aligned()
        self._lent[address] = memory
        buffer[0], size[0], most[0] = address, BUFFER_BYTES, 0

    def _take_back(self, _context: int, _stream: int, buffer: int, _size: int, valid: int) -> None:
        self._full.append((buffer, valid))

    def start(self, kinds: Sequence[int] = (*DEVICE_KINDS, *LINK_KINDS)) -> None:
        """Forget what is there, and record from now on."""
        self.take()
        self.lost = False
        for kind in kinds:
            self._check("cuptiActivityEnable", int(kind))

    def stop(self, kinds: Sequence[int] = (*DEVICE_KINDS, *LINK_KINDS)) -> None:
        """Record no more."""
        for kind in kinds:
            self._check("cuptiActivityDisable", int(kind))

    def take(self) -> list[Activity | Link]:
        """Everything recorded since the last call. The device must be idle."""
        self._check("cuptiActivityFlushAll", _FLUSH_FORCED)
        records: list[Activity | Link] = []
        full, self._full = self._full, []
        for address, valid in full:
            for record in self._walk(address, valid):
                if len(records) < MAX_RECORDS:
                    records.append(record)
                else:
                    self.lost = True
            memory = self._lent.pop(address, None)
            if memory is not None:
                self._free.append((memory, address))
        self._note_dropped()
        return records

    def _walk(self, address: int, valid: int) -> Iterator[Activity | Link]:
        record = ctypes.c_void_p(None)
        step = self._library.cuptiActivityGetNextRecord
        while valid and not step(
            ctypes.c_void_p(address), ctypes.c_size_t(valid), ctypes.byref(record)
        ):
            place = record.value
            assert place is not None
            kind = layout.HEAD.unpack(ctypes.string_at(place, 4))[0]
            size = layout.SIZES.get(kind)
            if size is None:
                continue
            decoded = layout.decode(kind, ctypes.string_at(place, size), ctypes.string_at)
            if decoded is not None:
                yield decoded

    def _note_dropped(self) -> None:
        dropped = ctypes.c_size_t(0)
        self._library.cuptiActivityGetNumDroppedRecords(None, 0, ctypes.byref(dropped))
        self.lost |= dropped.value > 0

    @contextlib.contextmanager
    def tagged(self, external: int) -> Iterator[None]:
        """API calls of this thread carry the id meanwhile."""
        self.push(external)
        try:
            yield
        finally:
            self.pop()

    def push(self, external: int) -> None:
        """Put an id on this thread's stack."""
        self._library.cuptiActivityPushExternalCorrelationId(_CUSTOM, ctypes.c_uint64(external))

    def pop(self) -> None:
        """Take the top id off it."""
        last = ctypes.c_uint64()
        self._library.cuptiActivityPopExternalCorrelationId(_CUSTOM, ctypes.byref(last))


def _aligned() -> tuple[Any, int]:
    """A buffer, and the first address in it that is a multiple of 8."""
    memory = ctypes.create_string_buffer(BUFFER_BYTES + 8)
    return memory, (ctypes.addressof(memory) + 7) & ~7
