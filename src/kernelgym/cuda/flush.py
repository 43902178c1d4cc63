"""A cold L2 cache before every timed call.

Writing a buffer of twice the cache's size evicts what was there. Lines that somebody marked as
persisting survive that, so their marks are taken away first.
"""

from __future__ import annotations

from kernelgym.cuda.driver import Driver

FACTOR = 2
"""The buffer is this many times the size of the cache."""
MINIMUM_BYTES = 64 << 20


class Flush:
    """The buffer, and the commands that evict everything else."""

    def __init__(self, driver: Driver, l2_bytes: int) -> None:
        self._driver = driver
        self.size = max(MINIMUM_BYTES, FACTOR * l2_bytes) // 4 * 4
        self._address = int(driver.call("cuMemAlloc", self.size))
        self._turn = 0

    def forget_persisting(self) -> None:
        """Take the marks of persisting lines away."""
        self._driver.call("cuCtxResetPersistingL2Cache")

    def queue(self, stream: int, *, forget: bool = True) -> None:
        """Queue the flush; the value written changes, so that no write can be elided.

        ``forget``: persisting lines, too. The driver takes its time for that while others make
        contexts.
        """
        if forget:
            self.forget_persisting()
        self._turn += 1
        self._driver.call(
            "cuMemsetD32Async", self._address, self._turn % 251, self.size // 4, stream
        )

    def close(self) -> None:
        """Free the buffer."""
        self._driver.call("cuMemFree", self._address)
