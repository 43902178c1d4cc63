"""What the status page shows, as plain data; the templates only lay it out.

Sources, names and messages come from strangers: the templates escape everything, and the page's
policy allows no script at all.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from kernelgym.broker.protocol import TaskView
from kernelgym.schema import EvalResult, Outcome, Submission, Timing

_BINS = 24
_BAR_WIDTH, _HEIGHT = 12, 80
_GOOD = (Outcome.CORRECT,)
_NEUTRAL = (Outcome.INFRASTRUCTURE,)


@dataclass(frozen=True)
class Chip:
    """A word in a colour: ``good``, ``bad`` or ``off``."""

    word: str
    tone: str


@dataclass(frozen=True)
class Line:
    """One line of source."""

    number: int
    text: str
    flagged: bool


@dataclass(frozen=True)
class Bar:
    """One bar of a histogram, in pixels."""

    x: int
    y: int
    width: int
    height: int


@dataclass(frozen=True)
class Histogram:
    """Samples of one side of a timing."""

    title: str
    bars: tuple[Bar, ...]
    low_ms: float
    high_ms: float
    width: int
    height: int = _HEIGHT


def chip(task: TaskView) -> Chip:
    """The verdict where there is one, else the state."""
    if task.outcome and task.state.value == "done":
        outcome = Outcome(task.outcome)
        tone = "good" if outcome in _GOOD else "off" if outcome in _NEUTRAL else "bad"
        return Chip(outcome.value, tone)
    return Chip(task.state.value, "off")


def when(unix_ms: int) -> str:
    """A time of day, in UTC."""
    moment = datetime.fromtimestamp(unix_ms / 1000, UTC)
    return moment.strftime("%Y-%m-%d %H:%M:%S") if unix_ms else ""


def took(task: TaskView) -> str:
    """Seconds from submission to the end."""
    return f"{(task.finished_ms - task.submitted_ms) / 1000:.2f} s" if task.finished_ms else ""


def source_lines(source: str, result: EvalResult | None) -> list[Line]:
    """The candidate's source, with the lines that gave it away."""
    flagged = set()
    if result is not None:
        flagged = {one.line for one in result.findings}
        if result.failure is not None:
            flagged.add(result.failure.line)
    return [Line(n, text, n in flagged) for n, text in enumerate(source.splitlines(), 1)]


def histograms(timings: Sequence[Timing]) -> list[Histogram]:
    """Two for each mode that was timed, on one scale."""
    listed = []
    for timing in timings:
        both = (*timing.reference_samples_ms, *timing.kernel_samples_ms)
        if not both:
            continue
        low, high = min(both), max(both)
        sides = {"reference": timing.reference_samples_ms, "candidate": timing.kernel_samples_ms}
        for side, samples in sides.items():
            listed.append(_histogram(f"{timing.mode}: {side}", samples, low, high))
    return listed


def _histogram(title: str, samples: Sequence[float], low: float, high: float) -> Histogram:
    counts = [0] * _BINS
    for sample in samples:
        place = (sample - low) / (high - low) if high > low else 0.0
        counts[min(_BINS - 1, int(place * _BINS))] += 1
    tallest = max(counts) or 1
    heights = [round(_HEIGHT * count / tallest) for count in counts]
    bars = tuple(
        Bar(n * _BAR_WIDTH, _HEIGHT - height, _BAR_WIDTH - 2, height)
        for n, height in enumerate(heights)
    )
    return Histogram(title, bars, low, high, _BINS * _BAR_WIDTH)


def repeat_command(submission: Submission, device: str) -> str:
    """The command that judges the same again, next to the two downloaded files."""
    words = ["kernelgym", "submit", "candidate.py", "--reference", "reference.py", "--force"]
    defaults = Submission(task=submission.task, source="")
    options = {
        "--backend": "backend",
        "--entry-point": "entry_point",
        "--protocol": "protocol",
        "--precision": "precision",
        "--baseline": "baseline",
        "--trials": "trials",
        "--timeout": "timeout_s",
        "--memory": "memory_mb",
    }
    for option, field in options.items():
        value = getattr(submission, field)
        if value != getattr(defaults, field):
            words += [option, str(value)]
    if device != "any":
        words += ["--device", device]
    return shlex.join(words)
