"""Whether the work of timed calls kept its place in the stream that they were made on. Pure.

Work on other streams has to wait for that stream before it starts, and that stream for it before
the call returns. Otherwise inputs may not be there yet, outputs not be complete, and several calls
that are bracketed together run beside one another: each looks shorter than it is.

Which call a record belongs to is known by the number of its API call, between those that the
harness makes before each call. Only times of a traced bracket are compared.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Collection, Sequence

from kernelgym.trace.cupti_layout import Activity


def overlap_us(
    activities: Sequence[Activity], calls: Sequence[int], copies: Collection[int]
) -> float:
    """For how long work of a call ran beside that of a later one, or beside the copies of outputs.

    ``calls``: correlation numbers at which the calls began, in order. ``copies``: those of the
    harness's own copies. 0 where everything came one after the other.
    """
    spans: dict[int, tuple[float, float]] = {}
    for activity in activities:
        if not 0 < activity.start_ns <= activity.end_ns:  # no time is known
            continue
        place = bisect_right(calls, activity.correlation)
        if activity.correlation in copies:
            place = len(calls) + 1
        if place:  # else it came before the first call
            low, high = spans.get(place, (math.inf, -math.inf))
            spans[place] = min(low, activity.start_ns), max(high, activity.end_ns)
    worst, reach = 0.0, -math.inf
    for _, (low, high) in sorted(spans.items()):
        worst = max(worst, reach - low)
        reach = max(reach, high)
    return worst / 1e3
