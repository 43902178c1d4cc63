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
    """Raise `Expired` in the block once ``limit_s`` seconds have passed."""

    def expire(_signal: int, _frame: FrameType | None) -> None:
        raise Expired

    before = signal.signal(signal.SIGALRM, expire)
    # The interval makes it ring again in code that swallowed the first ring.
    signal.setitimer(signal.ITIMER_REAL, limit_s, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
