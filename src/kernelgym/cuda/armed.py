"""A call that is queued whole before it may start.

    park at FLAG, [judge: secret inputs, flush], tick, START, event, K x (event, call), event, END,
    copy out, COPIED

The host returns while the stream is parked; nothing of the call has run. When FLAG is raised, the
GPU runs through it without the CPU: no launch jitter, and two marks on a shared page that the
judge reads. The tick absorbs the switch from the judge's context (about 150 us). Both sides use
this: the candidate's harness, and the judge for the reference, which flushes before it parks. An
event before each call takes its place in the stream: where a call has joined its other streams to
this one, the next call waits for them, too, and does not run beside them.

A call that waits for the device in its middle cannot be queued whole: whoever raises FLAG does so
after a limit, and says "late". Not covered: streams of another context of the same process.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from kernelgym.cuda.driver import Driver
from kernelgym.cuda.flush import Flush
from kernelgym.cuda.kernels import Kernels
from kernelgym.cuda.page import DevicePage, Slot

T = TypeVar("T")


class Events:
    """Two timing events, reused."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        flag = int(driver.api.CUevent_flags.CU_EVENT_DEFAULT)
        self._start: Any = driver.call("cuEventCreate", flag)
        self._end: Any = driver.call("cuEventCreate", flag)

    def start(self, stream: int) -> None:
        """Queue the first."""
        self._driver.call("cuEventRecord", self._start, stream)

    def end(self, stream: int) -> None:
        """Queue the second."""
        self._driver.call("cuEventRecord", self._end, stream)

    def microseconds(self) -> float:
        """Wait for the second; time between the two."""
        self._driver.call("cuEventSynchronize", self._end)
        return float(self._driver.call("cuEventElapsedTime", self._start, self._end)) * 1e3


@dataclass
class Bench:
    """What arming needs, made once a process."""

    driver: Driver
    page: DevicePage
    kernels: Kernels
    flush: Flush
    events: list[Events]
    """One pair for each bracket that may wait at the same time."""
    between: Events
    """Recorded before each call, never read."""

    @classmethod
    def make(
        cls, driver: Driver, l2_bytes: int, fd: int | None = None, *, brackets: int = 1
    ) -> Bench:
        """Allocate everything; ``fd`` is the judge's page, without it one is made.

        ``brackets``: most that are queued behind one another.
        """
        return cls(
            driver,
            DevicePage(driver, fd),
            Kernels(driver),
            Flush(driver, l2_bytes),
            [Events(driver) for _ in range(brackets)],
            Events(driver),
        )

    def close(self) -> None:
        """Wait for what is queued (nothing may be parked any more), free everything."""
        self.driver.call("cuCtxSynchronize")
        self.kernels.close()
        self.flush.close()
        self.page.close()


@dataclass
class Queued(Generic[T]):
    """A bracket that waits for its flag, or runs."""

    results: list[T]
    """What each call returned on the CPU."""
    events: Events

    def microseconds(self) -> float:
        """Wait for the end; time between the events."""
        return self.events.microseconds()


def queue(
    bench: Bench,
    value: int,
    calls: int,
    call: Callable[[int], T],
    copy_out: Callable[[list[T]], None] = lambda _: None,
    *,
    flush: bool = True,
    pair: int = 0,
    begins: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Queued[T]:
    """Queue one bracket whose marks will read ``value``. Does not wait, does not raise the flag.

    Without ``flush`` somebody else makes the cache cold while this is parked; lines marked as
    persisting are left to the caller. ``pair``: which events it uses. ``begins`` is entered round
    what is queued before each call.
    """
    stream, page, events = bench.driver.stream(), bench.page, bench.events[pair]
    if flush:
        bench.flush.queue(stream, forget=False)
    page.wait(stream, Slot.FLAG, value)
    bench.kernels.tick(stream)
    page.write(stream, Slot.START, value)
    events.start(stream)
    results = []
    for index in range(calls):
        with begins():
            bench.between.start(stream)
        results.append(call(index))
    events.end(stream)
    page.write(stream, Slot.END, value)
    copy_out(results)
    page.write(stream, Slot.COPIED, value)
    return Queued(results, events)
