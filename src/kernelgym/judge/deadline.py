"""A limit on code of the reference, which runs in the judge's own process.

An alarm interrupts Python code with a traceback that says where it hung. Code that hangs inside C
does not notice; the host sees a silent judge and kills it. Works in the main thread only.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Expired(BaseException):
    """The limit has passed. Not an `Exception`, so that a broad ``except`` does not eat it."""


@contextmanager
def alarm(limit_s: float) -> Iterator[None]:
    """Raise `Expired` in the block once ``limit_s`` seconds have passed.

    Code that swallows it is interrupted again every second, and found out at the latest at the end.
    """
    active, rang = True, False

    def ring(_signal: int, _frame: FrameType | None) -> None:
        nonlocal rang
        if active:
            rang = True
            raise Expired

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, limit_s, 1.0)
    try:
        yield
    finally:
        active = False
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    if rang:
        raise Expired
