"""Who may use the GPU: one lock a device, held by judges on behalf of their candidates.

    free --acquire--> held --release--> free
                      held --compiling--> lent --compiled--> held

The lock is `flock` on a file; each judge has its own open file description (made by the host, which
keeps none of it), so the lock dies with the judge, however it dies, and a candidate that dies
cannot take it along: it never had it. ``lent`` is the state while a candidate compiles.

Every wait is bounded. `flock` knows no deadline, so it is tried again in growing steps of at most
2 ms. Not covered: order among waiters (the kernel gives none), and processes that ignore the gate:
a hostile candidate can always launch. The judge's canary sees those (`kernelgym.judge.brackets`).
"""

from __future__ import annotations

import contextlib
import enum
import fcntl
import os
import time
from collections.abc import Iterator

from kernelgym.errors import ServiceError

WAIT_LIMIT_S = 60.0
MAX_LOANS = 2_000
"""Compilations of one evaluation, every autotune configuration included."""
_FIRST_STEP_S, _LONGEST_STEP_S = 0.0001, 0.002


class State(enum.Enum):
    """Of the gate, as its judge sees it."""

    FREE = "free"
    HELD = "held"
    LENT = "lent"


class GateTimeout(ServiceError):
    """The GPU was not free in time."""


class GateMisuse(Exception):
    """A step that the state does not allow; from a candidate's frames it is a protocol breach."""


class Gate:
    """One judge's view of one GPU's lock."""

    def __init__(self, fd: int | None, *, wait_limit_s: float = WAIT_LIMIT_S) -> None:
        """``fd``: a file description of this judge's own; None where there is no GPU to guard."""
        self._fd = fd
        self._wait_limit_s = wait_limit_s
        self._since = 0.0
        self.state = State.FREE
        self.held_s = 0.0
        self.waited_s = 0.0
        self.loans = 0

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold it for a block; given back however the block ends."""
        self.acquire()
        try:
            yield
        finally:
            self.release()

    def acquire(self) -> None:
        """Wait for the GPU; raises `GateTimeout`."""
        if self.state is not State.FREE:
            raise GateMisuse(f"acquire while {self.state.value}")
        self._lock()
        self.state = State.HELD

    def release(self) -> None:
        """Give it back; harmless when it is free or lent."""
        if self.state is State.HELD:
            self._unlock()
        self.state = State.FREE

    def compiling(self) -> None:
        """A candidate is about to compile: others may have the GPU."""
        if self.state is not State.HELD:
            raise GateMisuse(f"COMPILING while {self.state.value}")
        self.loans += 1
        if self.loans > MAX_LOANS:
            raise GateMisuse(f"more than {MAX_LOANS} compilations")
        self._unlock()
        self.state = State.LENT

    def compiled(self) -> None:
        """It wants to go on: wait for the GPU again."""
        if self.state is not State.LENT:
            raise GateMisuse(f"COMPILED while {self.state.value}")
        self._lock()
        self.state = State.HELD

    def _lock(self) -> None:
        started = time.monotonic()
        if self._fd is not None:
            self._flock(self._fd, started + self._wait_limit_s)
        self._since = time.monotonic()
        self.waited_s += self._since - started

    def _flock(self, fd: int, deadline: float) -> None:
        step = _FIRST_STEP_S
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise GateTimeout(
                        f"the GPU was not free within {self._wait_limit_s:g} s",
                        hint="kernelgym doctor",
                    ) from None
            time.sleep(step)
            step = min(2 * step, _LONGEST_STEP_S)

    def _unlock(self) -> None:
        if self._fd is not None:
            fcntl.flock(self._fd, fcntl.LOCK_UN)
        self.held_s += time.monotonic() - self._since


def open_description(path: str) -> int:
    """A file description of one judge's own, to be handed over and closed by the host."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
