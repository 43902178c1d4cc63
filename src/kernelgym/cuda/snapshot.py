"""What output memory holds at the moment of an answer, copied by a DMA engine.

A kernel of the judge would wait until the candidate's context yields, and so would see the
finished output; a copy engine does not wait. Large outputs are sampled: windows at places that the
judge draws.

Not covered: a candidate that finishes between the answer and the copy (10-20 us).
"""

from __future__ import annotations

import ctypes
import random
from collections.abc import Sequence
from dataclasses import dataclass

from kernelgym.cuda.driver import Driver

WINDOW_BYTES = 4096
MAX_WINDOWS = 16


@dataclass(frozen=True)
class Window:
    """Bytes ``[offset, offset + size)`` of a pool."""

    offset: int
    size: int


def draw_windows(
    regions: Sequence[tuple[int, int]], rng: random.Random, limit: int = MAX_WINDOWS
) -> list[Window]:
    """Windows in regions (offset, size): first and last of each region, then random ones."""
    windows: list[Window] = []
    regions = [(offset, size) for offset, size in regions if size > 0]
    each = max(2, limit // max(1, len(regions)))
    for offset, size in regions:
        if size <= each * WINDOW_BYTES:
            spans = range(0, size, WINDOW_BYTES)
            windows += [Window(offset + at, min(WINDOW_BYTES, size - at)) for at in spans]
            continue
        places = {0, size - WINDOW_BYTES}
        places |= {rng.randrange(size - WINDOW_BYTES) for _ in range(each - 2)}
        windows += [Window(offset + at, WINDOW_BYTES) for at in sorted(places)]
    return windows[:limit] if len(regions) <= limit else rng.sample(windows, limit)


class Snapshot:
    """A pinned buffer and a stream of the judge's own."""

    def __init__(self, driver: Driver, limit: int = MAX_WINDOWS) -> None:
        self._driver = driver
        self._size = limit * WINDOW_BYTES
        self._host = int(driver.call("cuMemHostAlloc", self._size, 0))
        flag = int(driver.api.CUstream_flags.CU_STREAM_NON_BLOCKING)
        self._stream = int(driver.call("cuStreamCreate", flag))

    def take(self, base: int, windows: Sequence[Window]) -> list[bytes]:
        """Copy the windows of the pool at ``base`` now; returns when the copies have landed."""
        at, call, stream = self._host, self._driver.call, self._stream
        for window in windows:
            call("cuMemcpyDtoHAsync", at, base + window.offset, window.size, stream)
            at += window.size
        self._driver.call("cuStreamSynchronize", self._stream)
        return self._split(windows)

    def _split(self, windows: Sequence[Window]) -> list[bytes]:
        parts, at = [], 0
        for window in windows:
            parts.append(ctypes.string_at(self._host + at, window.size))
            at += window.size
        return parts

    def close(self) -> None:
        """Free buffer and stream."""
        self._driver.call("cuStreamDestroy", self._stream)
        self._driver.call("cuMemFreeHost", self._host)
