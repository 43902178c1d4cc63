"""Waiting for the jailed process, and bounding its tree by polling where no cgroup does.

Polling is a weaker bound than a cgroup and results say so (``memory_cgroup`` missing): a tree can
overshoot by what it allocates in one interval, and its total is known within a factor of two: a
page of a shared file that is also mapped cannot be told apart, so the larger of the two sums
counts. What no poll can see is refused by the system call filter instead (System V shared memory;
memfd_create, except for a GPU, which needs it). Not seen: memory of the kernel, such as pipes and
sockets hold, which per-user limits of the kernel bound.
"""

from __future__ import annotations

import contextlib
import os
import select
from dataclasses import dataclass
from pathlib import Path

from kernelgym.sandbox import reaping
from kernelgym.sandbox.jail_spec import JailSpec

INTERVAL_MS = 20
_TMPFS = ("/tmp", "/dev/shm")


@dataclass
class Watch:
    """Limits to poll for, and the most memory seen."""

    memory_bytes: int | None
    processes: int | None
    private_tmp: bool
    peak_bytes: int = 0


def is_polled(spec: JailSpec, missing: set[str]) -> bool:
    """Whether memory is bounded by polling alone."""
    return "memory_cgroup" in missing - set(spec.without)


def needed(spec: JailSpec, missing: set[str]) -> Watch | None:
    """What has to be polled because no cgroup bounds it; None: nothing."""
    if spec.level == "none":
        return None
    memory = spec.memory_bytes if is_polled(spec, missing) else None
    processes = spec.processes if "pids_cgroup" in missing - set(spec.without) else None
    if memory is None and processes is None:
        return None
    return Watch(memory, processes, spec.level == "L1" and "private_tmp" not in missing)


def wait(main_pid: int, watch: Watch | None) -> tuple[int | None, str]:
    """Reap until main has ended: its wait status, and the limit (or "") that was exceeded.

    When a limit is exceeded nothing is waited for: the caller kills the tree.
    """
    if watch is None:
        while True:
            pid, status = os.waitpid(-1, 0)
            if pid == main_pid:
                return status, ""
    poller = select.poll()
    with contextlib.closing(_PidFd(main_pid)) as main:
        poller.register(main.fd, select.POLLIN)
        while True:
            poller.poll(INTERVAL_MS)
            ended, _ = reaping.reap_available()
            if main_pid in ended:
                return ended[main_pid], ""
            excess = _excess(watch)
            if excess:
                return None, excess


class _PidFd:
    def __init__(self, pid: int) -> None:
        self.fd = os.pidfd_open(pid)

    def close(self) -> None:
        os.close(self.fd)


def _excess(watch: Watch) -> str:
    own = os.getpid()
    pids = (
        [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != own]
        if reaping.is_init()
        else reaping.descendants(own)
    )
    if watch.processes is not None and len(pids) > watch.processes:
        return "processes"
    if watch.memory_bytes is None:
        return ""
    used = sum(_status_bytes(pid) for pid in pids) + _tmpfs_bytes(watch)
    if used > watch.memory_bytes // 2:
        used = _tree_bytes(pids, _tmpfs_bytes(watch))
    watch.peak_bytes = max(watch.peak_bytes, used)
    return "memory" if used > watch.memory_bytes else ""


def _tree_bytes(pids: list[int], tmpfs_bytes: int) -> int:
    """Private memory plus the larger of what is mapped shared and what files in memory hold."""
    private = shared = 0
    files: dict[tuple[int, int], int] = {}
    for pid in pids:
        rollup = _fields(f"/proc/{pid}/smaps_rollup")
        if rollup:
            private += rollup.get("Pss_Anon", 0)
            shared += rollup.get("Pss_Shmem", 0)
        else:
            private += _status_bytes(pid)
        files.update(_anonymous_files(pid))
    held = sum(files.values())
    return private + max(shared, held + tmpfs_bytes)


def _status_bytes(pid: int) -> int:
    fields = _fields(f"/proc/{pid}/status")
    return fields.get("RssAnon", 0) + fields.get("RssShmem", 0)


def _fields(path: str) -> dict[str, int]:
    """Lines ``Name:  123 kB`` of a file of /proc, in bytes; empty when it cannot be read."""
    found: dict[str, int] = {}
    try:
        text = Path(path).read_text()
    except OSError:
        return found
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        if rest.endswith(" kB"):
            found[name] = int(rest[:-3]) * 1024
    return found


def _anonymous_files(pid: int) -> dict[tuple[int, int], int]:
    """Bytes of the memfds and deleted files in memory that a process holds open."""
    found: dict[tuple[int, int], int] = {}
    directory = f"/proc/{pid}/fd"
    try:
        names = os.listdir(directory)
    except OSError:
        return found
    for name in names:
        with contextlib.suppress(OSError):
            if os.readlink(f"{directory}/{name}").startswith("/memfd:"):
                info = os.stat(f"{directory}/{name}")
                found[info.st_dev, info.st_ino] = info.st_blocks * 512
    return found


def _tmpfs_bytes(watch: Watch) -> int:
    total = 0
    for path in _TMPFS if watch.private_tmp else ():
        with contextlib.suppress(OSError):
            info = os.statvfs(path)
            total += (info.f_blocks - info.f_bfree) * info.f_frsize
    return total
