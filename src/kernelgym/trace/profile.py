"""Where the device time of one call went: shares that sum to 1, coverage, displaced work. Pure.

* Time in which several records overlap is split equally among them.
* ``T_total``: all kernels, copies and fills. ``T_generated``: the candidate's own kernels.
* ``coverage = T_generated / T_total``;
  ``displaced = clip(1 - T_foreign(candidate) / T_total(reference), 0, 1)``.
* The tick that every armed bracket starts with is the canary: without it nobody was listening, and
the
  profile is None, never 0. Exactly one tick a bracket is taken out; further ones count as foreign.
* Device time that the judge's clock does not confirm, in either direction, is a contradiction.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kernelgym.cuda.kernels import TICK
from kernelgym.schema import KernelRecord, Mode
from kernelgym.trace.attribution import Attributed

GAP_US = 1.5
"""The drain between dependent kernels, which CUPTI does not count and every bracket does."""
TOLERANCE = 0.05


@dataclass(frozen=True)
class CallProfile:
    """The profile of one call."""

    kernels: tuple[KernelRecord, ...]
    total_us: float
    generated_us: float
    busy_us: float
    """Time in which anything ran, overlaps counted once."""
    records: int
    contexts: int
    """Contexts that did something; more than one is a candidate that opened its own."""
    direct_own: int
    """Own records of all calls that were traced to a launch, graph nodes left out."""

    @property
    def foreign_us(self) -> float:
        """Device time of everything that is not the candidate's own."""
        return self.total_us - self.generated_us

    @property
    def coverage(self) -> float:
        """Part of the device time that own kernels take."""
        return self.generated_us / self.total_us


def shared_times(spans: Sequence[tuple[int, int]]) -> list[float]:
    """Length of each span (start, end), where time that n spans share counts 1/n for each."""
    points = sorted({point for span in spans for point in span})
    opened: defaultdict[int, int] = defaultdict(int)
    for start, end in spans:
        if end > start:
            opened[start] += 1
            opened[end] -= 1
    share_until: dict[int, float] = {}
    share, active, previous = 0.0, 0, 0
    for point in points:
        if active > 0:
            share += (point - previous) / active
        share_until[point] = share
        active += opened[point]
        previous = point
    return [share_until[end] - share_until[start] if end > start else 0.0 for start, end in spans]


def busy_time(spans: Iterable[tuple[int, int]]) -> int:
    """Length of the union of spans."""
    total, reach = 0, -math.inf
    for start, end in sorted(spans):
        if end > reach:
            total += end - int(max(start, reach))
            reach = end
    return total


def profile(
    records: Sequence[Attributed], calls: int, mode: Mode | None = None, *, lost: bool = False
) -> CallProfile | None:
    """Profile of one of ``calls`` equal calls; None when the profiler was not listening."""
    kept = _without_tick(records)
    if kept is None or not kept or lost:
        return None
    spans = [(item.activity.start_ns, item.activity.end_ns) for item in kept]
    times = [time / calls / 1e3 for time in shared_times(spans)]
    total = sum(times)
    if total <= 0:
        return None
    generated = sum(time for item, time in zip(kept, times, strict=True) if item.own)
    return CallProfile(
        kernels=_table(kept, times, calls, total, mode),
        total_us=total,
        generated_us=generated,
        busy_us=busy_time(spans) / calls / 1e3,
        records=len(kept),
        contexts=len({item.activity.context for item in kept}),
        direct_own=sum(item.how == "launch" for item in kept),
    )


def _without_tick(records: Sequence[Attributed]) -> list[Attributed] | None:
    """What comes after the first tick (before it lies the flush); None when there is none."""
    for index, item in enumerate(records):
        if item.activity.name == TICK and not item.own:
            begin = item.activity.end_ns
            return [other for other in records[index + 1 :] if other.activity.end_ns > begin]
    return None


def _table(
    records: Sequence[Attributed],
    times: Sequence[float],
    calls: int,
    total: float,
    mode: Mode | None,
) -> tuple[KernelRecord, ...]:
    groups: defaultdict[tuple[object, ...], list[int]] = defaultdict(list)
    for index, item in enumerate(records):
        a = item.activity
        groups[a.name, item.own, a.grid, a.block, a.registers, a.shared_bytes].append(index)
    table = []
    for members in groups.values():
        item, time = records[members[0]], sum(times[index] for index in members)
        a = item.activity
        table.append(
            KernelRecord(
                name=a.name,
                own=item.own,
                calls=max(1, round(len(members) / calls)),
                time_us=round(time, 3),
                share=time / total,
                grid=a.grid if a.is_kernel else None,
                block=a.block if a.is_kernel else None,
                registers=a.registers if a.is_kernel else None,
                shared_bytes=a.shared_bytes if a.is_kernel else None,
                spill_bytes=a.local_bytes if a.is_kernel else None,
                mode=mode,
            )
        )
    return tuple(sorted(table, key=lambda record: -(record.time_us or 0.0)))


def displaced(candidate: CallProfile, reference_total_us: float) -> float | None:
    """Part of the reference's device time that library kernels no longer run."""
    if reference_total_us <= 0:
        return None
    return min(1.0, max(0.0, 1.0 - candidate.foreign_us / reference_total_us))


def sentence(generated_us: float, total_us: float) -> str:
    """The sentence that the paper puts into prompts."""
    return (
        f"Custom kernel CUDA time: {generated_us:.2f} us / Total time: {total_us:.2f} us, "
        f"Coverage: {100 * generated_us / total_us:.2f}%"
    )


def contradiction(found: CallProfile, call_us: float, own_launches: int) -> str | None:
    """What a profile says against the judge's clock, or against the launches in the pipe.

    ``own_launches``: in all calls that the profile is of.
    """
    unexplained = call_us - found.busy_us - GAP_US * found.records
    if unexplained > TOLERANCE * call_us:
        return (
            f"the call took {call_us:.1f} us by the judge's clock, "
            f"records explain {found.busy_us:.1f} us of it"
        )
    if found.busy_us > (1 + TOLERANCE) * call_us + GAP_US:
        return f"records claim {found.busy_us:.1f} us of a call of {call_us:.1f} us"
    if found.direct_own > own_launches:
        return f"{found.direct_own} own device records, {own_launches} launches of own kernels"
    return None
