"""Device records as rows of numbers, for the way from the candidate's process to the judge.

`pack` runs over there, `unpack` in the judge: whatever does not have the right form is refused
there with ``ValueError``.
"""

from __future__ import annotations

from collections.abc import Sequence

from kernelgym.sandbox.clock_messages import MAX_ROWS, ROW_LENGTH, Row, Traced
from kernelgym.trace.attribution import Attributed
from kernelgym.trace.cupti_layout import Activity

_HOW = ("", "launch", "graph")
_MAX_NAME = 200
_LIMIT = 1 << 62


def pack(records: Sequence[Attributed], *, lost: bool, overlap_us: float = 0.0) -> Traced:
    """Rows with times from the first record on; cut to `MAX_ROWS`, and then ``lost``."""
    kept = records[:MAX_ROWS]
    origin = kept[0].activity.start_ns if kept else 0
    names = {name: None for item in kept if (name := item.activity.name[:_MAX_NAME]) is not None}
    numbers = {name: index for index, name in enumerate(names)}
    return Traced(
        names=tuple(names),
        rows=tuple(_row(item, numbers[item.activity.name[:_MAX_NAME]], origin) for item in kept),
        lost=lost or len(kept) < len(records),
        overlap_us=overlap_us,
    )


def _row(item: Attributed, name: int, origin: int) -> Row:
    a = item.activity
    return (
        name, a.start_ns - origin, a.end_ns - a.start_ns, _HOW.index(item.how), int(a.is_kernel),
        *a.grid, *a.block, a.registers, a.shared_bytes, a.local_bytes, a.context,
    )  # fmt: skip


def unpack(traced: Traced) -> list[Attributed]:
    """The records; raises ``ValueError`` for a row that `pack` does not make."""
    return [_record(traced, row) for row in traced.rows]


def _record(traced: Traced, row: Row) -> Attributed:
    if len(row) != ROW_LENGTH or not all(0 <= number < _LIMIT for number in row):
        raise ValueError("a malformed device record")
    name, start, length, how, is_kernel, gx, gy, gz, bx, by, bz, registers, shared, local, ctx = row
    if name >= len(traced.names) or how >= len(_HOW):
        raise ValueError("a device record without a name")
    activity = Activity(
        name=traced.names[name][:_MAX_NAME],
        start_ns=start,
        end_ns=start + length,
        correlation=0,
        is_kernel=bool(is_kernel),
        grid=(gx, gy, gz),
        block=(bx, by, bz),
        registers=registers,
        shared_bytes=shared,
        local_bytes=local,
        context=ctx,
    )
    return Attributed(activity, how > 0, _HOW[how])
