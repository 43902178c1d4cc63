"""Wall time by stage, without gaps: entering a stage leaves the one before."""

from __future__ import annotations

import time


class Stopwatch:
    """Adds wall seconds to named stages."""

    def __init__(self, stage: str) -> None:
        self._stage = stage
        self._since = time.monotonic()
        self._seconds: dict[str, float] = {}

    def enter(self, stage: str) -> None:
        """What happens from now on belongs to ``stage``."""
        now = time.monotonic()
        self._seconds[self._stage] = self._seconds.get(self._stage, 0.0) + now - self._since
        self._stage, self._since = stage, now

    def read(self) -> dict[str, float]:
        """Seconds of each stage until now."""
        self.enter(self._stage)
        return {name: round(seconds, 6) for name, seconds in self._seconds.items()}
