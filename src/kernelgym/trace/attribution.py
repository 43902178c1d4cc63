"""Which device records are the candidate's own: by the launch that caused them, not by name.

A launch of a Triton kernel passes `Recorder.launch`, which knows whether the function's code
object is one of the candidate's source. Right after it Triton calls its launch hooks; between them
the thread carries an external id, CUPTI links the id to the API call, the record carries the API
call's number:

    code object -> launch -> external id -> correlation -> device record

What a record itself offers is its symbol (Triton: the function's plain name; others: the mangled
one), grid, block, registers and shared memory; there is no handle of the function and no hash of
the binary. A node of a CUDA graph carries the replay's correlation, not its launch's, so it is own
when symbol, block, registers and shared memory equal those of a record that was traced to an own
launch.

Runs in the candidate's process, loaded before it: inside evidence. The judge compares it with the
launches in the evidence pipe. Not covered: own kernels that are first launched inside a capture.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kernelgym.trace.cupti import Cupti
from kernelgym.trace.cupti_layout import Activity, Link
from kernelgym.trace.recorder import Recorder

Identity = tuple[str, tuple[int, int, int], int, int]
"""Symbol, block, registers, shared memory: what a record offers to recognise a kernel by."""
MAX_TAGS = 100_000


def identity(activity: Activity) -> Identity:
    """Of a device record."""
    return activity.name, activity.block, activity.registers, activity.shared_bytes


@dataclass(frozen=True)
class Attributed:
    """A device record and whose it is."""

    activity: Activity
    own: bool
    how: str
    """``launch``: traced to a launch. ``graph``: a node that equals one. Empty: not own."""


class LaunchTags:
    """Gives launches external ids while a call is traced."""

    def __init__(self, cupti: Cupti, recorder: Recorder) -> None:
        self._cupti = cupti
        self._base = int.from_bytes(os.urandom(7), "big") << 8
        self._tags: list[bool] = []
        self._pending = threading.local()
        self._identities: set[Identity] = set()
        self._on = False
        recorder.listeners.append(self._announced)
        self._hook()

    def _announced(self, own: bool) -> None:
        """A launch is about to happen on this thread."""
        self._pending.own = own

    def _hook(self) -> None:
        from triton import knobs

        for name, function in (
            ("launch_enter_hook", self.enter),
            ("launch_exit_hook", self.leave),
        ):
            chain = getattr(knobs.runtime, name)
            if hasattr(chain, "add"):
                chain.add(function)
            else:  # a plain attribute in Triton releases before hook chains
                setattr(knobs.runtime, name, function)

    def enter(self, _metadata: Any) -> None:
        """Triton is about to launch."""
        own = getattr(self._pending, "own", None)
        self._pending.own = None
        self._pending.pushed = False
        if self._on and own is not None and len(self._tags) < MAX_TAGS:
            self._tags.append(own)
            self._cupti.push(self._base + len(self._tags) - 1)
            self._pending.pushed = True

    def leave(self, _metadata: Any) -> None:
        """Triton has launched."""
        if getattr(self._pending, "pushed", False):
            self._pending.pushed = False
            self._cupti.pop()

    def start(self) -> None:
        """Trace from now on."""
        self._tags.clear()
        self._cupti.start()
        self._on = True

    def stop(self) -> list[Attributed]:
        """Trace no more; what the device did meanwhile. The device must be idle."""
        self._on = False
        records = self._cupti.take()
        self._cupti.stop()
        return attribute(records, self._base, self._tags, self._identities)

    @property
    def lost(self) -> bool:
        """Whether records are missing."""
        return self._cupti.lost


def attribute(
    records: Sequence[Activity | Link],
    base: int,
    tags: Sequence[bool],
    identities: set[Identity],
) -> list[Attributed]:
    """Decide for each device record; adds what is own to ``identities``."""
    owners = {
        record.correlation: tags[record.external - base]
        for record in records
        if isinstance(record, Link) and 0 <= record.external - base < len(tags)
    }
    activities = [record for record in records if isinstance(record, Activity)]
    direct = [a for a in activities if _is_direct(a) and owners.get(a.correlation, False)]
    identities.update(identity(activity) for activity in direct)
    own_ids = {id(activity) for activity in direct}
    result = []
    for activity in sorted(activities, key=lambda a: (a.start_ns, a.end_ns)):
        how = "launch" if id(activity) in own_ids else ""
        if activity.graph_node and activity.is_kernel and identity(activity) in identities:
            how = "graph"
        result.append(Attributed(activity, bool(how), how))
    return result


def _is_direct(activity: Activity) -> bool:
    return activity.is_kernel and not activity.graph_node
