"""Reductions and scans with a function of the candidate's own, a whole row at a time.

Triton's interpreter calls the combining function once for each element, which takes minutes where
a GPU takes microseconds: Welford's variance, a maximum with its place, a linear recurrence. The
function is associative, or it would be wrong on a GPU, so here neighbours are combined in pairs,
all pairs at once. What cannot be done with whole rows falls back to Triton's own way.

Not covered: the order of additions on a GPU, which is another one again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Rows = list[Any]
"""Arrays of one shape, one for each value that is combined."""


def install() -> None:
    """Put it into the interpreter of this process."""
    from triton.runtime import interpreter

    reduce_slowly = interpreter.ReduceOps.generic_reduce
    scan_slowly = interpreter.ScanOps.generic_scan

    def generic_reduce(self: Any, values: Any) -> Any:
        try:
            return _reduce(self, values)
        except Exception:  # noqa: BLE001 - the function may want single elements
            return reduce_slowly(self, values)

    def generic_scan(self: Any, values: Any) -> Any:
        try:
            rows = [value.handle.data for value in values]
            found = _scan(_combiner(self, values), rows, self.axis)
            return [self.to_tensor(row, v.dtype) for row, v in zip(found, values, strict=True)]
        except Exception:  # noqa: BLE001 - the function may want single elements
            return scan_slowly(self, values)

    interpreter.ReduceOps.generic_reduce = generic_reduce
    interpreter.ScanOps.generic_scan = generic_scan


def _combiner(self: Any, values: Sequence[Any]) -> Callable[[Rows, Rows], Rows]:
    """The function on arrays; earlier elements come first."""
    types = [value.dtype for value in values]

    def tensors(rows: Rows) -> list[Any]:
        return [
            self.to_tensor(np.ascontiguousarray(row), kind)
            for row, kind in zip(rows, types, strict=True)
        ]

    def combine(left: Rows, right: Rows) -> Rows:
        found = self.combine_fn.fn(*tensors(left), *tensors(right))
        found = found if isinstance(found, tuple) else (found,)
        return [
            np.broadcast_to(getattr(getattr(one, "handle", None), "data", one), row.shape).astype(
                row.dtype
            )
            for one, row in zip(found, left, strict=True)
        ]

    return combine


def _at(row: Any, axis: int, part: slice) -> Any:
    return row[(slice(None),) * axis + (part,)]


def _pairs(rows: Rows, axis: int) -> tuple[Rows, Rows]:
    even = [_at(row, axis, slice(0, None, 2)) for row in rows]
    return even, [_at(row, axis, slice(1, None, 2)) for row in rows]


def _reduce(self: Any, values: Any) -> list[Any]:
    given, axis = self.unravel(values, self.axis)
    rows = [value.handle.data for value in given]
    combine = _combiner(self, given)
    while rows[0].shape[axis] > 1:
        rows = combine(*_pairs(rows, axis))
    result = []
    for row, value in zip(rows, given, strict=True):
        data = row if self.keep_dims and self.axis is not None else np.squeeze(row, axis=axis)
        if self.keep_dims and self.axis is None:
            data = data.reshape((1,) * len(values[0].handle.data.shape))
        elif not data.shape:
            data = data.item()
        result.append(self.to_tensor(data, value.dtype))
    return result


def _scan(combine: Callable[[Rows, Rows], Rows], rows: Rows, axis: int) -> Rows:
    """Inclusive: pairs are scanned, and what lies between them is filled in."""
    if rows[0].shape[axis] == 1:
        return rows
    even, odd = _pairs(rows, axis)
    done = _scan(combine, combine(even, odd), axis)
    before = [np.roll(row, 1, axis=axis) for row in done]  # the first one is not used
    between = combine(before, even)
    found = []
    for row, first, whole, part in zip(rows, even, done, between, strict=True):
        out = np.empty_like(row)
        _at(out, axis, slice(0, None, 2))[...] = part
        _at(out, axis, slice(1, None, 2))[...] = whole
        _at(out, axis, slice(0, 1))[...] = _at(first, axis, slice(0, 1))
        found.append(out)
    return found
