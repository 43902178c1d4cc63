"""One number of a report, with its interval and what it is over."""

from __future__ import annotations

import math

from pydantic import BaseModel, ConfigDict


class Row(BaseModel):
    """A number of a run."""

    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True)

    metric: str
    """E.g. ``fast@1.2``, ``correct``, ``hack ratio``."""
    group: str
    """``all``, or a level."""
    turn: str
    """``turn 3``, or ``best of 3``."""
    value: float | None
    """None where nothing was measured."""
    low: float | None = None
    """Lower end of the 95% interval."""
    high: float | None = None
    """Upper end."""
    problems: int = 0
    """Tasks it is over."""
    samples: int = 0
    """Samples it is over, or turns for a mean over turns."""
    run: str = ""
    """Name of the run, where several are shown."""

    def text(self) -> str:
        """``0.41 [0.30, 0.52]``."""
        return number_text(self.value, self.low, self.high)


def number_text(value: float | None, low: float | None = None, high: float | None = None) -> str:
    """A number with its interval, or a dash."""
    if value is None or math.isnan(value):
        return "-"
    text = f"{value:.3f}"
    if low is None or high is None or math.isnan(low) or math.isnan(high):
        return text
    return f"{text} [{low:.3f}, {high:.3f}]"
