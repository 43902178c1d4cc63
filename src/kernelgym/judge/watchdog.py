"""A thread that acts when the main one has not come back in time, and is silent otherwise.

A timer thread for every bracket would cost more than the bracket, and would take the interpreter's
lock at a moment of its own choosing, in the middle of a measurement. This one sleeps on plain locks
between `arm` and `disarm`, and `disarm` returns only when it sleeps again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable


class Watchdog:
    """One thread for the life of the process."""

    def __init__(self) -> None:
        self._go, self._off, self._idle = (threading.Lock() for _ in range(3))
        for lock in (self._go, self._off, self._idle):
            lock.acquire()
        self._limit_s = 0.0
        self._act: Callable[[], None] = lambda: None
        self._acted = False
        threading.Thread(target=self._run, daemon=True).start()

    def arm(self, limit_s: float, act: Callable[[], None]) -> None:
        """Call ``act`` in ``limit_s`` seconds, unless disarmed before."""
        self._limit_s, self._act, self._acted = limit_s, act, False
        self._go.release()

    def disarm(self) -> bool:
        """Once after each `arm`; whether it has acted."""
        self._off.release()
        self._idle.acquire()
        return self._acted

    def _run(self) -> None:
        while True:
            self._go.acquire()
            if not self._off.acquire(timeout=self._limit_s):
                self._acted = True
                self._act()
                self._off.acquire()
            self._idle.release()
