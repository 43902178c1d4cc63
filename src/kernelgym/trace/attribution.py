"""Which device records are the candidate's own: by the launch that caused them, not by name.

A launch of a Triton kernel passes `Recorder.launch`, which knows whether the function's code
object is one of the candidate's source. Right after it Triton calls its launch hooks; between them
the thread carries an external id, CUPTI links the id to the API call, the record carries the API
call's number:

    code object -> launch -> external id -> correlation -> device record

What a record itself offers is its symbol (Triton: the function's plain name; others: the mangled
one), grid, block, registers and shared memory; there is no handle of the function and no hash of
the binary. A node of a CUDA graph carries the replay's correlation, not its launch's. CUPTI gives a
record a node, whenever the graph was captured; it is own when symbol, block, registers and shared
memory equal those of a record that was traced to an own launch, or when symbol, block and registers
equal those of a compiled kernel that an own launch has used at any time, a capture included.

Runs in the candidate's process, loaded before it: inside evidence. The judge compares it with the
launches in the evidence pipe. Not covered: graphs of own kernels that were not launched through
Triton.
"""

from __future__ import annotations

import contextlib
import enum
import math
import os
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from kernelgym.trace.cupti import Cupti, CuptiUnavailable
from kernelgym.trace.cupti_layout import Activity, Link
from kernelgym.trace.ordering import overlap_us
from kernelgym.trace.recorder import Recorder

Identity = tuple[str, tuple[int, int, int], int, int]
"""Symbol, block, registers, shared memory: what a record offers to recognise a kernel by."""
Compiled = tuple[str, int, int]
"""Symbol, threads of a block, registers: what a compiled kernel says of itself."""
MAX_TAGS = 100_000
MAX_COMPILED = 10_000


def identity(activity: Activity) -> Identity:
    """Of a device record."""
    return activity.name, activity.block, activity.registers, activity.shared_bytes


def compiled_identity(kernel: object) -> Compiled | None:
    """Of a compiled kernel of Triton's; None when it does not say (it was never loaded)."""
    metadata = getattr(kernel, "metadata", None)
    name, warps = getattr(metadata, "name", None), getattr(metadata, "num_warps", None)
    registers = getattr(kernel, "n_regs", None)
    if name is None or warps is None or registers is None:
        return None
    return str(name), 32 * int(warps), int(registers)


class Tag(enum.IntEnum):
    """What an external id stands for."""

    FOREIGN = 0
    OWN = 1
    OURS = 2
    """The harness itself, e.g. copying outputs: in nobody's profile."""
    CALL = 3
    """Something of the harness's that marks where a call begins."""


@dataclass(frozen=True)
class Attributed:
    """A device record and whose it is."""

    activity: Activity
    own: bool
    how: str
    """``launch``: traced to a launch. ``graph``: a node that equals one. Empty: not own."""


class Tracer:
    """Records what the device does, and gives launches external ids meanwhile."""

    def __init__(self, cupti: Cupti, recorder: Recorder | None = None) -> None:
        """``recorder`` knows whose a launch is; without one nothing is anybody's own."""
        self._cupti = cupti
        self._base = int.from_bytes(os.urandom(7), "big") << 8
        self._tags: list[Tag] = []
        self._pending = threading.local()
        self._identities: set[Identity] = set()
        self._compiled: set[Compiled] = set()
        self._on = False
        self._has_worked = False
        self.overlap_us = 0.0
        """Of the last trace: for how long work ran outside its call, see `ordering`."""
        if recorder is not None:
            recorder.listeners.append(self._announced)
            recorder.compiled_listeners.append(self._used)
            self._hook()

    def _announced(self, own: bool) -> None:
        """A launch is about to happen on this thread."""
        self._pending.tag = Tag.OWN if own else Tag.FOREIGN

    def _used(self, kernel: object) -> None:
        """An own launch has used a compiled kernel."""
        found = compiled_identity(kernel)
        if found is not None and len(self._compiled) < MAX_COMPILED:
            self._compiled.add(found)

    def _hook(self) -> None:
        from triton import knobs

        for name, function in (
            ("launch_enter_hook", self.enter),
            ("launch_exit_hook", self.leave),
        ):
            chain = getattr(knobs.runtime, name)
            if hasattr(chain, "add"):
                chain.add(function)
            else:  # a plain attribute before Triton had chains of hooks
                setattr(knobs.runtime, name, function)

    def _push(self, tag: Tag) -> bool:
        if not self._on or len(self._tags) >= MAX_TAGS:
            return False
        self._tags.append(tag)
        self._cupti.push(self._base + len(self._tags) - 1)
        return True

    def enter(self, _metadata: Any) -> None:
        """Triton is about to launch."""
        tag = getattr(self._pending, "tag", None)
        self._pending.tag = None
        self._pending.pushed = tag is not None and self._push(tag)

    def leave(self, _metadata: Any) -> None:
        """Triton has launched."""
        if getattr(self._pending, "pushed", False):
            self._pending.pushed = False
            self._cupti.pop()

    def ours(self) -> contextlib.AbstractContextManager[None]:
        """What this thread asks of the device meanwhile is left out."""
        return self._tagged(Tag.OURS)

    def begins(self) -> contextlib.AbstractContextManager[None]:
        """A call begins with what this thread asks of the driver meanwhile."""
        return self._tagged(Tag.CALL)

    @contextlib.contextmanager
    def _tagged(self, tag: Tag) -> Iterator[None]:
        pushed = self._push(tag)
        try:
            yield
        finally:
            if pushed:
                self._cupti.pop()

    def start(self) -> None:
        """Trace from now on. A profiler that fails after it has worked once was taken away."""
        self._tags.clear()
        try:
            self._cupti.start()
        except CuptiUnavailable:
            if not self._has_worked:
                raise
        else:
            self._on = True

    def stop(self) -> list[Attributed]:
        """Trace no more; what the device did meanwhile. The device must be idle."""
        if not self._on:
            return []
        self._on = False
        try:
            records = self._cupti.take()
            self._cupti.stop()
        except CuptiUnavailable:
            if not self._has_worked:
                raise
            return []
        self._has_worked = True
        self.overlap_us = self._overlap_us(records)
        return attribute(records, self._base, self._tags, self._identities, self._compiled)

    def _overlap_us(self, records: Sequence[Activity | Link]) -> float:
        owners = owners_of(records, self._base, self._tags)
        activities = [record for record in records if isinstance(record, Activity)]
        calls = sorted(number for number, tag in owners.items() if tag is Tag.CALL)
        copies = {number for number, tag in owners.items() if tag is Tag.OURS}
        return overlap_us(activities, calls, copies) if calls else 0.0

    @property
    def lost(self) -> bool:
        """Whether records are missing."""
        return self._cupti.lost


def attribute(
    records: Sequence[Activity | Link],
    base: int,
    tags: Sequence[Tag],
    identities: set[Identity],
    compiled: Set[Compiled] = frozenset(),
) -> list[Attributed]:
    """Decide for each device record, earliest first; adds what is own to ``identities``."""
    links = _links(records, base, tags)
    owners = owners_of(records, base, tags)
    activities = [record for record in records if isinstance(record, Activity)]
    _disown(activities, links, owners, compiled)
    activities.sort(key=lambda activity: (activity.start_ns, activity.end_ns))
    identities.update(
        identity(activity)
        for activity in activities
        if _is_direct(activity) and owners.get(activity.correlation) is Tag.OWN
    )
    result = []
    for activity in activities:
        tag, how = owners.get(activity.correlation, Tag.FOREIGN), ""
        if tag is Tag.OURS:
            continue
        if _is_direct(activity) and tag is Tag.OWN:
            how = "launch"
        elif activity.graph_node and activity.is_kernel:
            threads = math.prod(activity.block)
            same = identity(activity) in identities
            same = same or (activity.name, threads, activity.registers) in compiled
            how = "graph" if same else ""
        result.append(Attributed(activity, bool(how), how))
    return result


def owners_of(records: Sequence[Activity | Link], base: int, tags: Sequence[Tag]) -> dict[int, Tag]:
    """Correlation numbers of API calls that carried an external id, and what that stands for."""
    return {number: tags[place] for number, place in _links(records, base, tags).items()}


def _links(records: Sequence[Activity | Link], base: int, tags: Sequence[Tag]) -> dict[int, int]:
    return {
        record.correlation: record.external - base
        for record in records
        if isinstance(record, Link) and 0 <= record.external - base < len(tags)
    }


def _disown(
    activities: Sequence[Activity],
    links: Mapping[int, int],
    owners: dict[int, Tag],
    compiled: Set[Compiled],
) -> None:
    """A launch is one kernel. Where more ran under an own one's id (arguments and hooks are Python,
    too, and may have called a library), only what Triton compiled for own launches stays own."""
    direct = [a for a in activities if _is_direct(a) and owners.get(a.correlation) is Tag.OWN]
    under = Counter(links[activity.correlation] for activity in direct)
    for activity in direct:
        known = (activity.name, math.prod(activity.block), activity.registers) in compiled
        if under[links[activity.correlation]] > 1 and not known:
            owners[activity.correlation] = Tag.FOREIGN


def _is_direct(activity: Activity) -> bool:
    return activity.is_kernel and not activity.graph_node
