"""Where a run stands, on stderr: one line that is rewritten on a terminal, a line now and then
elsewhere."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter

from drkernel.types import Turn

_EVERY_S = 15.0


class Progress:
    """Counts turns and episodes and says so."""

    def __init__(self, total_episodes: int, *, what: str = "", quiet: bool = False) -> None:
        self.total = total_episodes
        self.done = 0
        self.turns = 0
        self.statuses: Counter[str] = Counter()
        self._what = what
        self._quiet = quiet
        self._live = sys.stderr.isatty() and "CI" not in os.environ
        self._started = self._said = time.monotonic()

    def turn(self, turn: Turn) -> None:
        """A turn has ended."""
        self.turns += 1
        outcome = turn.result.outcome.value if turn.result is not None else turn.status
        self.statuses[outcome] += 1
        self._say()

    def episode(self, count: int = 1) -> None:
        """Episodes are over."""
        self.done += count
        self._say()

    def close(self) -> None:
        """The last word."""
        self._say(last=True)

    def _say(self, *, last: bool = False) -> None:
        now = time.monotonic()
        if self._quiet or not (last or self._live or now - self._said >= _EVERY_S):
            return
        self._said = now
        end = "\n" if last or not self._live else ""
        start = "\r\x1b[K" if self._live else ""
        sys.stderr.write(f"{start}{self.line(now - self._started)}{end}")
        sys.stderr.flush()

    def line(self, seconds: float) -> str:
        """One line of numbers."""
        share = self.statuses
        rate = self.turns / seconds if seconds > 0 else 0.0
        said = "  ".join(f"{name} {count}" for name, count in share.most_common(5))
        what = f"{self._what}: " if self._what else ""
        return (
            f"{what}{self.done}/{self.total} episodes  {self.turns} turns"
            f" ({rate:.1f}/s)  {said}  {seconds:.0f}s"
        )
