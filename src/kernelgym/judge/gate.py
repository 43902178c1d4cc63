"""Who may use the GPU: one lock a device, held by judges on behalf of their candidates.

    free --acquire----------------> alone   --release--> free
    free --acquire(alone=False)---> shared  --release--> free
    alone, shared --compiling--> lent --compiled--> as before
    shared --step_aside--> shared, after those who wait to be alone

Whatever is timed runs ``alone``. ``shared`` is for calls that nobody times: their judges take
turns with those who time, between any two calls, and run beside one another.

The lock is a range of a file, locked on an open file description that each judge has of its own
(made by the host, which keeps none of it). So it dies with the judge, however it dies, and a
candidate that dies cannot take it along: it never had it. Who waits to be alone locks a second
range meanwhile, together with others who do: the wish. As long as there is one, nobody new shares
the device, so all who wish to be alone come one after the other, and only the first of them waits
for calls that are under way. Whoever has waited to share for a while asks for no wishes any more.
``lent`` is the state while a candidate compiles; the lock itself is given away only while this
evaluation has not waited too long already.

All waits of an evaluation together are bounded. Such a lock knows no deadline, so it is tried again
in growing steps of at most a millisecond. Not covered: order among equals (the kernel gives none),
and processes that ignore the gate: a hostile candidate can always launch. The judge's canary sees
those (`kernelgym.judge.volley`).
"""

from __future__ import annotations

import contextlib
import enum
import errno
import fcntl
import os
import struct
import time
from collections.abc import Callable, Iterator

from kernelgym.errors import ServiceError

WAIT_LIMIT_S = 300.0
"""Of one evaluation, all its waits together: longer than a few candidates that hang, one after the
other, may keep the device."""
LENDS_S = 100.0
"""Having waited for so long, it keeps the device while it compiles: a candidate that compiles
dozens of kernels would else wait for its neighbours dozens of times."""
MAX_LOANS = 2_000
"""Compilations of one evaluation, every autotune configuration included."""
_FIRST_STEP_S, _LONGEST_STEP_S = 0.0001, 0.001
_LOCK = struct.Struct("hhqqi4x")
"""C's ``struct flock`` on 64-bit Linux: type, whence, start, length, process."""
_DEVICE, _WISH, _PLACES = 0, 1, 2
"""Bytes of the file that are locked; from the last one on the places of those who share."""
SHARING = 4
"""So many may share at a time: contexts take turns on a device, and more of them make each other's
calls longer without getting more done."""
PATIENCE_S = 1.0
"""Waiting to share for so long, one stops letting others go first."""


class State(enum.Enum):
    """Of the gate, as its judge sees it."""

    FREE = "free"
    SHARED = "shared"
    ALONE = "alone"
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
        self._since = self._lent_at = 0.0
        self._lent = State.FREE
        self._kept = False
        """Lent, but the lock was not given away."""
        self._place = 0
        self.state = State.FREE
        self.held_s = 0.0
        """Seconds alone on the device."""
        self.shared_s = 0.0
        """Seconds beside others, or ready to be."""
        self.waited_s = 0.0
        """Seconds of waiting since `begin`."""
        self.lent_s = 0.0
        """Seconds of compiling since `begin`."""
        self.loans = 0

    def begin(self) -> None:
        """An evaluation begins: none of its waits and loans so far."""
        self.waited_s, self.lent_s, self.loans = 0.0, 0.0, 0

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Have it alone for a block; given back however the block ends."""
        self.acquire()
        try:
            yield
        finally:
            self.release()

    def acquire(self, *, alone: bool = True, waits: Callable[[], None] = lambda: None) -> None:
        """Wait for the GPU; raises `GateTimeout`. ``waits`` is called when it takes a while."""
        if self.state is not State.FREE:
            raise GateMisuse(f"acquire while {self.state.value}")
        self._lock(State.ALONE if alone else State.SHARED, waits)

    def release(self) -> None:
        """Give it back; harmless when it is free or lent."""
        if self._kept:
            self._kept, self.state = False, self._lent
        if self.state in (State.ALONE, State.SHARED):
            self._unlock()
        self.state = State.FREE

    def step_aside(self, waits: Callable[[], None] = lambda: None) -> None:
        """Between two calls: those who wait to be alone go first. Nothing when not shared."""
        if self.state is not State.SHARED:
            return
        self._unlock()
        self.state = State.FREE
        self._lock(State.SHARED, waits)

    def compiling(self) -> None:
        """A candidate is about to compile: others may have the GPU."""
        if self.state not in (State.ALONE, State.SHARED):
            raise GateMisuse(f"COMPILING while {self.state.value}")
        self.loans += 1
        if self.loans > MAX_LOANS:
            raise GateMisuse(f"more than {MAX_LOANS} compilations")
        self._kept = self.waited_s > LENDS_S
        if not self._kept:
            self._unlock()
        self._lent, self._lent_at, self.state = self.state, time.monotonic(), State.LENT

    def compiled(self, waits: Callable[[], None] = lambda: None) -> None:
        """It wants to go on: wait for the GPU again."""
        if self.state is not State.LENT:
            raise GateMisuse(f"COMPILED while {self.state.value}")
        self.lent_s += time.monotonic() - self._lent_at
        if self._kept:
            self._kept, self.state = False, self._lent
            return
        self._lock(self._lent, waits)

    def _lock(self, state: State, waits: Callable[[], None]) -> None:
        if state is State.ALONE:
            self._set(_WISH, fcntl.F_RDLCK)
            try:
                self._wait(lambda _waited_s: self._set(_DEVICE, fcntl.F_WRLCK), waits)
            finally:
                self._set(_WISH, fcntl.F_UNLCK)
        else:
            self._wait(self._may_share, waits)
        self._since = time.monotonic()
        self.state = state

    def _may_share(self, waited_s: float) -> bool:
        if waited_s < PATIENCE_S and self._is_wished():
            return False
        places = range(_PLACES, _PLACES + SHARING)
        self._place = next((place for place in places if self._set(place, fcntl.F_WRLCK)), 0)
        if self._place and not self._set(_DEVICE, fcntl.F_RDLCK):
            self._leave_place()
        return bool(self._place)

    def _leave_place(self) -> None:
        if self._place:
            self._set(self._place, fcntl.F_UNLCK)
            self._place = 0

    def _wait(self, attempt: Callable[[float], bool], waits: Callable[[], None]) -> None:
        started, step, before_s = time.monotonic(), 0.0, self.waited_s
        while not attempt(spent_s := time.monotonic() - started):
            self.waited_s = before_s + spent_s
            if self.waited_s >= self._wait_limit_s:
                raise GateTimeout(
                    f"the GPU was not free within {self._wait_limit_s:g} s",
                    hint="kernelgym doctor",
                )
            if not step:
                waits()
            step = min(2 * step or _FIRST_STEP_S, _LONGEST_STEP_S)
            time.sleep(step)
        self.waited_s = before_s + spent_s

    def _is_wished(self) -> bool:
        """Whether anybody waits to be alone."""
        if self._fd is None:
            return False
        found = fcntl.fcntl(self._fd, fcntl.F_OFD_GETLK, _range(fcntl.F_WRLCK, _WISH))
        return bool(_LOCK.unpack(found)[0] != fcntl.F_UNLCK)

    def _set(self, place: int, kind: int) -> bool:
        """Lock or unlock a byte now; False where somebody is in the way."""
        if self._fd is None:
            return True
        try:
            fcntl.fcntl(self._fd, fcntl.F_OFD_SETLK, _range(kind, place))
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EACCES):
                return False
            raise
        return True

    def _unlock(self) -> None:
        self._set(_DEVICE, fcntl.F_UNLCK)
        self._leave_place()
        self._count()

    def _count(self) -> None:
        spent = time.monotonic() - self._since
        if self.state is State.ALONE:
            self.held_s += spent
        else:
            self.shared_s += spent


def _range(kind: int, place: int) -> bytes:
    return _LOCK.pack(kind, os.SEEK_SET, place, 1, 0)


def open_description(path: str) -> int:
    """A file description of one judge's own, to be handed over and closed by the host."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
