"""Processor time of a jailed tree, read from outside: what its processes say does not matter.

The keeper's own time does not count, that of every descendant does, exited threads included; of
children that have been waited for, what their parents were told (in ticks of 10 ms).

Not covered: children of a process that ignores SIGCHLD, which nobody is told of, once they are
gone; work that somebody outside the tree does for it. Imports no torch.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

MOST_PROCESSES = 1_000
_TICK_NS = 10**9 // os.sysconf("SC_CLK_TCK")
_CUTIME, _CSTIME = 13, 14
"""Fields of ``/proc/PID/stat`` after the name, from 0."""


@dataclass(frozen=True)
class TreeClock:
    """Processor time in nanoseconds since each process began."""

    living_ns: int
    """Of processes that have not been waited for; exact. Falls when one is."""
    reaped_ns: int
    """Of those that have been; coarse."""


def read(keeper_pid: int) -> TreeClock | None:
    """The tree below a keeper; None where it cannot be known."""
    try:
        known = _descendants(keeper_pid)
        living, reaped = 0, _reaped_ns(keeper_pid)
        for pid in known:
            try:
                waited, spent = _reaped_ns(pid), time.clock_gettime_ns(_clock_of(pid))
            except (OSError, IndexError, ValueError):
                if pid == known[0]:
                    return None
                continue  # ended meanwhile; its parent has been told, or nobody
            living, reaped = living + spent, reaped + waited
    except (OSError, IndexError, ValueError):
        return None
    return TreeClock(living, reaped) if known else None


def _clock_of(pid: int) -> int:
    """What ``clock_getcpuclockid`` returns: the kernel's name for all threads of a process."""
    return (~pid << 3) | 2


def _descendants(pid: int) -> list[int]:
    """Without the process itself, parents first; raises OSError where the kernel does not tell."""
    found: list[int] = []
    ahead = _children(pid)
    while ahead and len(found) < MOST_PROCESSES:
        child = ahead.pop(0)
        found.append(child)
        try:
            ahead += _children(child)
        except (FileNotFoundError, ProcessLookupError):
            if len(found) == 1:
                raise
    return found


def _children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task")
    children: list[int] = []
    for task in list(tasks.iterdir()):
        try:
            children += map(int, (task / "children").read_text().split())
        except (FileNotFoundError, ProcessLookupError):
            if task.name == str(pid):
                raise
    return children


def _reaped_ns(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[_CUTIME]) + int(fields[_CSTIME])) * _TICK_NS
