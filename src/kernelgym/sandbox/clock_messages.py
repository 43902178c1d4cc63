"""Bodies of the frames that time calls on a GPU.

    CLOCK  (Clock, carries the page) -> DONE    prepare: kernels, flush buffer, events, profiler
    TIME   (Time) -> ARMED for each bracket that is queued, TIMED (Timed) when the device is through

The first group is written by the judge; the second is claims.
"""

from __future__ import annotations

from pydantic import Field

from kernelgym.sandbox.messages import Call, Output, _Body

MAX_CALLS = 64
MAX_BRACKETS = 16
MAX_ROWS = 8_000
"""Device records of one bracket; at about 100 bytes each they fit an answer."""


class Clock(_Body):
    """Prepare timed calls."""

    l2_bytes: int
    """Size of the cache to flush."""
    trace: bool = True
    """Start the profiler, too."""
    reserve_bytes: int = 0
    """Memory that torch's allocator takes now, so that calls need not ask the driver."""


class Time(_Body):
    """Armed brackets, queued one behind the other; each waits for a flag of its own."""

    value: int
    """What FLAG must reach, and what the marks will read, in the first; one more in each later
    one."""
    brackets: tuple[tuple[Call, ...], ...] = Field(max_length=MAX_BRACKETS)
    """The calls of each; none for an empty bracket."""
    trace: bool = False
    """Record what the device does."""
    restore: bool = False
    """First bring the module's buffers back to what they were when it was built."""


# --- claims ---------------------------------------------------------------------------------------

Row = tuple[int, ...]
"""Name, start and length in ns, 1 for own and 2 for an own node of a graph, 1 for a kernel, grid,
block, registers, shared memory, local memory, context."""
ROW_LENGTH = 15


class Traced(_Body):
    """What the device did meanwhile."""

    names: tuple[str, ...] = Field(max_length=MAX_ROWS)
    """Symbols."""
    rows: tuple[Row, ...] = Field(max_length=MAX_ROWS)
    """Records, earliest first."""
    lost: bool = False
    """Records are missing."""
    overlap_us: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """For how long work of a call ran beside a later one's, or beside the copies of outputs."""


class Timed(_Body):
    """What the harness measured, and what the calls returned."""

    events_us: tuple[float, ...] = Field(max_length=MAX_BRACKETS)
    """Between the events around all calls of each bracket."""
    outputs: tuple[tuple[Output, ...], ...] = Field(max_length=MAX_BRACKETS)
    """One a call; the tensors were copied into the output pool before the bracket's last mark."""
    traced: Traced | None = None
    """With `Time.trace`, and where there is a profiler."""
