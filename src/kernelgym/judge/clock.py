"""From raw samples to a time and an interval that keeps what it promises. Pure; no torch, no GPU.

* `median_interval`: distribution-free, from order statistics.
* `Sampler`: warm-up until steady, then looks at fixed sample counts. The error that all looks
  together may make is split over them, so stopping early costs no coverage.
* `Sandwich`: reference, candidate, reference. Blocks of the reference that differ by more than 1%
  void the sample; the interval of the ratio spans both blocks.
* `Bracket`: what the marks of one armed call say, and when the events inside may be believed.

Samples within a block are taken as independent. What two processes differ by systematically (memory
placement, 0.3-0.9% in the prototype) is in no interval: hence `EQUAL_WITHIN`.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

CONFIDENCE = 0.95
DRIFT_LIMIT = 0.01
"""Blocks of the reference may differ by this part."""
EQUAL_WITHIN = 0.015
"""A speedup closer to 1 than this is reported as equal."""
SECOND_LOOK_ABOVE = 3.0
"""A speedup above this is measured again in a fresh process."""
AGREEMENT = 0.05
"""Marks and events may differ by this part."""
MARKS_FROM_US = 30.0
"""Marks resolve 5% from this length of a bracket on: only there can they confirm events."""
BRACKET_FROM_US = 60.0
"""Calls are bracketed together until they take this long: a bracket costs a judge a millisecond,
a further call in it a third of that, and the mean of several calls is steadier than one."""
FLAG_BOUND_FROM_US = 300.0
"""The lead from flag to start mark is below 5% from this length on."""
LEAD_TOLERANCE_US = 8.0
"""Jitter of a lead that is not held against anybody, beside 5% of the bracket."""
TYPICAL_LEAD_US, TYPICAL_TAIL_US, TYPICAL_PART = 3.0, 2.0, 0.01
"""By which medians of a block's leads and tails may be longer than honest ones: so much, and this
part of what was bracketed."""
LEAD_LIMIT_US = 400.0
"""Switching contexts takes about 150 us; a longer lead hides something."""
SHORTEST_US = 0.5
"""Times are never less: what does nothing still cannot be timed below the events' resolution."""
ODD_SHARE = 0.2
"""Part of a block's brackets that may be left out because marks do not confirm their events."""
STEADY_WITHIN = 0.02
STEADY_US = 5.0
"""What launching varies by: warm-up calls are not armed."""
WARM_WINDOW = 3
WARM_LIMIT = 15
LOOKS = (8, 12, 16, 32, 64)
"""Sample counts at which the interval is looked at."""
TARGET_HALF_WIDTH = 0.015
"""Of an interval that is narrow enough: what is reported as equal is no wider."""


@dataclass(frozen=True)
class Interval:
    """A median and what it lies between."""

    low: float
    middle: float
    high: float

    @property
    def half_width(self) -> float:
        """Half the width, relative to the middle."""
        return (self.high - self.low) / (2 * self.middle) if self.middle > 0 else math.inf


def median_interval(samples: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """Median with a distribution-free interval; the extremes when the samples are too few."""
    ordered = sorted(samples)
    count = len(ordered)
    if not count:
        raise ValueError("no samples")
    rank = _order_rank(count, (1 - confidence) / 2)
    return Interval(ordered[rank], statistics.median(ordered), ordered[count - 1 - rank])


def _order_rank(count: int, tail: float) -> int:
    """0-based index i of the order statistic below which the true median lies with at most
    ``tail``.

    That is the largest i with P(Binomial(count, 1/2) <= i) <= tail; 0 when there is none.
    """
    total, weight, rank = 0.0, 0.5**count, 0
    for index in range(count // 2):
        total += weight
        if total > tail:
            break
        rank = index
        weight *= (count - index) / (index + 1)
    return rank


@dataclass
class Sampler:
    """Collects samples of one block and says when to stop."""

    target: float = TARGET_HALF_WIDTH
    looks: tuple[int, ...] = LOOKS
    expected_us: float = 0.0
    """What single calls of the other mode, timed just before, took: warm-up ends as soon as this is
    seen."""
    other_us: float = 0.0
    """Median of the other mode's samples: where this mode takes the same, its interval may be
    twice as wide, because the mode of record is the slower one and neither is."""
    samples: list[float] = field(default_factory=list)
    warm: list[float] = field(default_factory=list)

    @property
    def confidence(self) -> float:
        """Of each look, so that all together keep `CONFIDENCE`."""
        return 1 - (1 - CONFIDENCE) / len(self.looks)

    def steady(self) -> bool:
        """Whether warm-up is over: two windows in a row agree, or it has taken long enough."""
        if len(self.warm) >= WARM_LIMIT:
            return True
        if self.expected_us and len(self.warm) >= WARM_WINDOW:
            now = statistics.median(self.warm[-WARM_WINDOW:])
            if _is_steady(now, self.expected_us):
                return True
        if len(self.warm) < 2 * WARM_WINDOW:
            return False
        before = statistics.median(self.warm[-2 * WARM_WINDOW : -WARM_WINDOW])
        return _is_steady(statistics.median(self.warm[-WARM_WINDOW:]), before)

    def until_next_look(self) -> int:
        """Samples that are missing until the interval is looked at again; at least 1."""
        count = len(self.samples)
        return next((look - count for look in self.looks if look > count), 1)

    def enough(self) -> bool:
        """Whether a look was reached at which the interval is narrow enough, or the last one."""
        count = len(self.samples)
        if count >= self.looks[-1]:
            return True
        return count in self.looks and self.interval().half_width <= self._target()

    def _target(self) -> float:
        middle = statistics.median(self.samples)
        alike = abs(middle - self.other_us) <= EQUAL_WITHIN / 2 * middle
        return 2 * self.target if alike else self.target

    def interval(self) -> Interval:
        """Median of the samples at the confidence of one look."""
        return median_interval(self.samples, self.confidence)


def _is_steady(now_us: float, before_us: float) -> bool:
    return abs(now_us - before_us) <= max(STEADY_US, STEADY_WITHIN * now_us)


@dataclass(frozen=True)
class Ratio:
    """A speedup."""

    value: float
    low: float
    high: float

    @property
    def equal(self) -> bool:
        """Too close to 1 to be called a difference."""
        return abs(self.value - 1) < EQUAL_WITHIN


@dataclass(frozen=True)
class Sandwich:
    """Times of the reference before, of the candidate, of the reference after."""

    before: tuple[float, ...]
    candidate: tuple[float, ...]
    after: tuple[float, ...]

    @property
    def drift(self) -> float:
        """How far the reference's medians lie apart, relative to the first."""
        first = statistics.median(self.before)
        return abs(statistics.median(self.after) - first) / first

    @property
    def void(self) -> bool:
        """The machine changed while the candidate was timed."""
        return self.drift > DRIFT_LIMIT

    @property
    def reference(self) -> float:
        """Median over both blocks of the reference."""
        return statistics.median((*self.before, *self.after))

    @property
    def kernel(self) -> float:
        """Median of the candidate."""
        return statistics.median(self.candidate)

    def ratio(self, looks: int = len(LOOKS)) -> Ratio:
        """Reference / candidate. The two sides are independent, so their errors add in square.

        The reference's interval is that of both blocks together, widened to hold both medians.
        """
        confidence = 1 - (1 - CONFIDENCE) / looks
        pooled = median_interval((*self.before, *self.after), confidence)
        medians = [statistics.median(block) for block in (self.before, self.after)]
        top = Interval(min(pooled.low, *medians), pooled.middle, max(pooled.high, *medians))
        kernel = median_interval(self.candidate, confidence)
        value = top.middle / kernel.middle
        down = math.hypot(math.log(top.middle / top.low), math.log(kernel.high / kernel.middle))
        up = math.hypot(math.log(top.high / top.middle), math.log(kernel.middle / kernel.low))
        return Ratio(value, value * math.exp(-down), value * math.exp(up))


def needs_second_look(speedup: float, kernel_us: float, floor_us: float) -> str | None:
    """Why a number is to be measured again in a fresh process, or None."""
    if speedup > SECOND_LOOK_ABOVE:
        return f"a speedup of {speedup:.2f} is above {SECOND_LOOK_ABOVE:g}"
    if kernel_us < floor_us:
        return (
            f"{kernel_us:.1f} us is below the {floor_us:.1f} us that reading the inputs and "
            "writing the outputs once takes at full bandwidth"
        )
    return None


def floor_us(moved_bytes: int, peak_bytes_per_s: float, l2_bytes: int = 0) -> float:
    """Least time in which that many bytes can move; what fits in the cache is not counted."""
    outside = max(0, moved_bytes - l2_bytes)
    return outside / peak_bytes_per_s * 1e6 if peak_bytes_per_s > 0 else 0.0


def calls_for(call_us: float, slots: int, extra: int = 0) -> int:
    """K: calls in a bracket, so that it is long enough for the marks; ``extra`` is drawn."""
    if call_us <= 0:
        return 1
    least = math.ceil(BRACKET_FROM_US / call_us)
    return max(1, min(slots, least + extra if least > 1 else 1))


@dataclass(frozen=True)
class Bracket:
    """What the judge saw of one armed call, in microseconds."""

    calls: int
    lead_us: float
    """From raising the flag to the start mark."""
    body_us: float
    """From the start mark to the end mark."""
    tail_us: float
    """From the end mark until the outputs were copied."""
    event_us: float
    """Between the events inside: a claim."""
    late: bool = False
    """The flag was raised before everything was queued: the call waits for the device."""

    def outside_us(self, empty_us: float, tail_us: float = 0.0, lead_us: float = math.inf) -> float:
        """Time of one call by the marks: without the empty bracket, with excess of lead and tail.

        ``tail_us`` is what copying such outputs takes, ``lead_us`` what lies between the flag and
        an honest start mark; work hidden behind the end mark or before the start mark makes them
        longer, and is charged. Where every mark is forged the lead is all there is.
        """
        excess = self.tail_us - tail_us
        if excess <= tail_tolerance_us(self.body_us):
            excess = 0.0
        excess += self.hidden_us(lead_us)
        return max(SHORTEST_US, (self.body_us - empty_us + excess) / max(1, self.calls))

    def charged_us(self, empty_us: float, tail_us: float, lead_us: float, block: Excess) -> float:
        """The same, with what its block is charged with where that is more than its own excess."""
        own = self.outside_us(empty_us, tail_us, lead_us)
        if self.late or not block.charged_us:
            return own
        calls = max(1, self.calls)
        return max(own, (self.body_us - empty_us + block.charged_us) / calls)

    def hidden_us(self, lead_us: float) -> float:
        """What the lead has beyond an honest one and its jitter; 0 when it is within that."""
        excess = self.lead_us - lead_us
        return excess if excess > LEAD_TOLERANCE_US + AGREEMENT * max(0.0, self.body_us) else 0.0

    def best_us(self, empty_us: float, tail_us: float = 0.0, lead_us: float = math.inf) -> float:
        """Time of one call by the events where marks confirm them: they are steadier."""
        if not self.confirms_events(empty_us, lead_us):
            return self.outside_us(empty_us, tail_us, lead_us)
        return max(SHORTEST_US, self.event_us / max(1, self.calls))

    def confirms_events(self, empty_us: float, lead_us: float = math.inf) -> bool:
        """Whether the events may be reported: marks agree, and the flag bounds them."""
        marks = self.body_us - empty_us
        if self.late or marks < MARKS_FROM_US or self.lead_us > LEAD_LIMIT_US:
            return False
        if not math.isfinite(self.event_us):  # a claim
            return False
        if self.hidden_us(lead_us):
            return False
        if abs(marks - self.event_us) > AGREEMENT * marks:
            return False
        return marks < FLAG_BOUND_FROM_US or self.event_us <= self.lead_us + self.body_us


def tail_tolerance_us(body_us: float) -> float:
    """Jitter of one bracket's tail that is not held against anybody."""
    return 3.0 + AGREEMENT * body_us


@dataclass(frozen=True)
class Excess:
    """What typical brackets of a block have in lead and tail beyond honest ones, in us."""

    lead_us: float = 0.0
    tail_us: float = 0.0
    charged_us: float = 0.0
    """Part of it that is not jitter: a bracket's time is at least that much longer."""


def excess(brackets: Sequence[Bracket], tail_us: float, lead_us: float = math.inf) -> Excess:
    """Medians over a block: far steadier than single brackets, and so bounded far more closely."""
    seen = [bracket for bracket in brackets if not bracket.late]
    if not seen:
        return Excess()
    body = statistics.median(max(0.0, bracket.body_us) for bracket in seen)
    tail = statistics.median_low(bracket.tail_us for bracket in seen) - tail_us
    lead = statistics.median_low(bracket.lead_us for bracket in seen) - lead_us
    lead = lead if math.isfinite(lead) else 0.0
    jitter = (
        TYPICAL_LEAD_US + TYPICAL_PART * body,
        TYPICAL_TAIL_US + TYPICAL_PART * (body + tail_us),
    )
    charged = sum(x for x, most in zip((lead, tail), jitter, strict=True) if x > most)
    return Excess(lead, tail, charged)


@dataclass(frozen=True)
class Reading:
    """A block of brackets as one list of times."""

    clock: str
    """``events`` when nearly every bracket confirmed them, else ``marks``."""
    samples_us: tuple[float, ...]
    excess: Excess = Excess()

    def __str__(self) -> str:
        middle = statistics.median(self.samples_us)
        return f"{middle:.2f} us by {len(self.samples_us)} {self.clock}"


def read(
    brackets: Sequence[Bracket],
    empty_us: float,
    tail_us: float,
    lead_us: float = math.inf,
    *,
    ours: bool = False,
) -> Reading:
    """Times of one call, by the best clock that the block allows.

    Now and then a mark comes late and does not confirm its bracket's events. Where that is rare,
    such brackets are left out; where it is not, all count, by their marks. Where leads or tails are
    longer throughout, by less than one bracket's jitter, every bracket is charged with it.
    Brackets that are ``ours``, the reference's, hide nothing behind their end marks.
    """
    found = excess(brackets, tail_us, lead_us)
    good = [
        bracket
        for bracket in brackets
        if bracket.confirms_events(empty_us, lead_us)
        and (ours or bracket.tail_us - tail_us <= tail_tolerance_us(bracket.body_us))
    ]
    if good and len(good) >= (1 - ODD_SHARE) * len(brackets):
        times = ((b.event_us + found.charged_us) / max(1, b.calls) for b in good)
        samples = tuple(max(SHORTEST_US, time) for time in times)
        return Reading("events", samples, found)
    samples = tuple(b.charged_us(empty_us, tail_us, lead_us, found) for b in brackets)
    return Reading("marks", samples, found)
