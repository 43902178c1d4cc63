"""Processes of a real worker: its zygotes, and what was forked from them."""

from __future__ import annotations

from pathlib import Path

from kernelgym.worker.supervisor import children_of

_ZYGOTE = b"kernelgym.sandbox.zygote"


def zygotes(worker: int) -> list[int]:
    """The root zygote of a worker and its flavours, which fork the jailed processes."""
    roots = [pid for pid in children_of(worker) if _ZYGOTE in command_line(pid)]
    return roots + [flavour for root in roots for flavour in sorted(children_of(root))]


def jailed(worker: int) -> list[int]:
    """Judges, candidates, compilers, and the first process of each one's jail."""
    flavours = [pid for root in zygotes(worker)[:1] for pid in children_of(root)]
    return sorted(pid for flavour in flavours for pid in descendants(flavour))


def descendants(pid: int) -> set[int]:
    found = children_of(pid)
    return found.union(*(descendants(child) for child in found))


def command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
