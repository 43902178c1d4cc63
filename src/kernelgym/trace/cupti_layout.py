"""Layouts of CUPTI's activity records, as far as they are read here, and their decoding.

Offsets are those of ``cupti_activity.h``: CUpti_ActivityKernel9 to 13, Memcpy6 and 7, MemcpyPtoP4,
Memset4 and 5, ExternalCorrelation. They agree in CUPTI 12.8, 12.9, 13.0 and 13.4, whose headers
were compiled to compare; newer structures only grow at their end. Other versions are refused
(`is_known`), because a wrong offset would look like a measurement.

Pure: bytes in, records out.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Callable
from dataclasses import dataclass

HEAD = struct.Struct("<I")
_KERNEL_HEAD = struct.Struct("<IBBH")
_TIMES = struct.Struct("<QQ")
_KERNEL_PLACE = struct.Struct("<III6iiiII")
"""At 40: device, context, stream, grid, block, static and dynamic shared, local a thread, local."""
_COPY_PLACE = struct.Struct("<IIII")
"""At 32: device, context, stream, correlation."""
_U32, _U64 = struct.Struct("<I"), struct.Struct("<Q")
MAX_NAME_BYTES = 1000


class ActivityKind(enum.IntEnum):
    """Kinds of activity by CUPTI's numbers."""

    MEMCPY = 1
    MEMSET = 2
    KERNEL = 3
    DRIVER = 4
    RUNTIME = 5
    CONCURRENT_KERNEL = 10
    MEMCPY2 = 22
    EXTERNAL_CORRELATION = 39


SIZES: dict[int, int] = {
    ActivityKind.MEMCPY: 80,
    ActivityKind.MEMSET: 80,
    ActivityKind.KERNEL: 176,
    ActivityKind.CONCURRENT_KERNEL: 176,
    ActivityKind.MEMCPY2: 64,
    ActivityKind.EXTERNAL_CORRELATION: 24,
}
"""Bytes of each record that are read; the records themselves are longer."""

_COPY_NAMES = {
    1: "copy HtoD", 2: "copy DtoH", 3: "copy HtoA", 4: "copy AtoH", 5: "copy AtoA",
    6: "copy AtoD", 7: "copy DtoA", 8: "copy DtoD", 9: "copy HtoH", 10: "copy PtoP",
}  # fmt: skip


@dataclass(frozen=True)
class Activity:
    """One piece of work of the device."""

    name: str
    start_ns: int
    end_ns: int
    correlation: int
    """Number of the API call that caused it."""
    is_kernel: bool = True
    grid: tuple[int, int, int] = (0, 0, 0)
    block: tuple[int, int, int] = (0, 0, 0)
    registers: int = 0
    shared_bytes: int = 0
    """Static and dynamic."""
    local_bytes: int = 0
    """Local memory a thread: spills and arrays."""
    context: int = 0
    stream: int = 0
    graph_node: int = 0
    """Above 0 for a node of a CUDA graph; all nodes of one replay share a correlation."""


@dataclass(frozen=True)
class Link:
    """An API call happened while this external id was on top of its thread's stack."""

    external: int
    correlation: int


def is_known(version: int) -> bool:
    """Whether a CUPTI of this API version uses the layouts above."""
    return 26 <= version < 100 or 130_000 <= version < 140_000


def decode(kind: int, data: bytes, read_name: Callable[[int], bytes]) -> Activity | Link | None:
    """A record of `SIZES` bytes; ``read_name`` fetches the text at an address. None: not ours."""
    if kind in (ActivityKind.KERNEL, ActivityKind.CONCURRENT_KERNEL):
        return _kernel(data, read_name)
    if kind == ActivityKind.MEMCPY:
        return _copy(data, _COPY_NAMES.get(data[4], "copy"), 44, 64)
    if kind == ActivityKind.MEMCPY2:
        return _copy(data, "copy PtoP", 60, None)
    if kind == ActivityKind.MEMSET:
        return _copy(data, "fill", 44, 64)
    if kind == ActivityKind.EXTERNAL_CORRELATION:
        return Link(_U64.unpack_from(data, 8)[0], _U32.unpack_from(data, 16)[0])
    return None


def _kernel(data: bytes, read_name: Callable[[int], bytes]) -> Activity:
    _, _, _, registers = _KERNEL_HEAD.unpack_from(data, 0)
    start, end = _TIMES.unpack_from(data, 16)
    place = _KERNEL_PLACE.unpack_from(data, 40)
    _, context, stream, gx, gy, gz, bx, by, bz, static, dynamic, local, _ = place
    address = _U64.unpack_from(data, 104)[0]
    name = read_name(address)[:MAX_NAME_BYTES] if address else b""
    return Activity(
        name=name.decode(errors="replace"),
        start_ns=start,
        end_ns=end,
        correlation=_U32.unpack_from(data, 92)[0],
        grid=(gx, gy, gz),
        block=(bx, by, bz),
        registers=registers,
        shared_bytes=static + dynamic,
        local_bytes=local,
        context=context,
        stream=stream,
        graph_node=_U64.unpack_from(data, 144)[0],
    )


def _copy(data: bytes, name: str, correlation_at: int, node_at: int | None) -> Activity:
    start, end = _TIMES.unpack_from(data, 16)
    _, context, stream, _ = _COPY_PLACE.unpack_from(data, 32)
    return Activity(
        name=name,
        start_ns=start,
        end_ns=end,
        correlation=_U32.unpack_from(data, correlation_at)[0],
        is_kernel=False,
        context=context,
        stream=stream if node_at is not None else 0,
        graph_node=_U64.unpack_from(data, node_at)[0] if node_at is not None else 0,
    )
