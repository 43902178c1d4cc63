"""Control groups of one jail: memory and number of processes, cgroup v1 or v2.

A jail gets a group of its own in every hierarchy that has a controller for it, below the group of
the process that forks it (as root without systemd: below the nearest one that can). In v2 a group
that holds processes cannot give controllers to children (`cgroup_places.delegate`). What cannot be
had is named in `Group.missing`; the keeper then polls.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from kernelgym.sandbox import cloning
from kernelgym.sandbox.cgroup_places import CONTROLLERS, parents, read, write
from kernelgym.sandbox.jail_spec import JailSpec

PREFIX = "kernelgym-"
_REMOVE_LIMIT_S = 2.0
_counter = itertools.count()


@dataclass
class Group:
    """The groups of one jail, with a descriptor open on the file of each by which one joins it.

    Joining by ``cgroup.procs`` waits for a grace period of the kernel, milliseconds: a child is
    born in the group, or else moved by the caller while it goes on. v1's ``tasks`` has a short
    way for a thread that moves itself.
    """

    name: str | None
    missing: set[str]
    tasks_fds: list[int] = field(default_factory=list)
    procs_fds: list[int] = field(default_factory=list)
    in_v2: str | None = None
    """Directory of the group of v2, if there is one."""

    def fork(self) -> int:
        """Fork a keeper, in the group of v2 from its first moment where the kernel can do that."""
        if self.in_v2 is not None:
            with contextlib.suppress(OSError), _opened(self.in_v2) as group_fd:
                pid = cloning.fork_into(group_fd)
                self._close_procs()  # nobody has to be moved, on either side
                return pid
        return os.fork()

    def put_in(self, pid: int) -> None:
        """Move a process (0: the calling one) into those that it does not join quickly."""
        for fd in self.procs_fds:
            os.write(fd, str(pid).encode())

    def join_quickly(self) -> None:
        """Move the calling process, of one thread, into the others."""
        for fd in self.tasks_fds:
            os.write(fd, b"0")

    def join(self) -> None:
        """Move the calling process into all."""
        self.join_quickly()
        self.put_in(0)

    def close(self) -> None:
        """Close the descriptors."""
        self._close_procs()
        for fd in self.tasks_fds:
            os.close(fd)
        self.tasks_fds = []

    def _close_procs(self) -> None:
        for fd in self.procs_fds:
            os.close(fd)
        self.procs_fds = []


@contextlib.contextmanager
def _opened(directory: str) -> Iterator[int]:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)


NO_GROUP = Group(None, set())
"""For jails that are not meant to have one."""


@dataclass(frozen=True)
class Usage:
    """What a group went through."""

    oom_killed: bool = False
    peak_bytes: int | None = None


def create(spec: JailSpec) -> Group:
    """Make the groups for one jail, as far as this machine lets us."""
    leaf = f"{PREFIX}{os.getpid()}-{next(_counter)}-{os.urandom(3).hex()}"
    group = Group(None, set())
    directories: list[str] = []
    places = parents()
    for controller in CONTROLLERS:
        protection = f"{controller}_cgroup"
        if protection in spec.without:
            continue
        parent = places.get(controller)
        directory = f"{parent}/{leaf}" if parent else None
        if directory is None or not _make(directory, controller, spec):
            group.missing.add(protection)
        elif directory not in directories:
            directories.append(directory)
    for path in directories:
        is_v1 = os.path.exists(f"{path}/tasks")
        name, fds = ("tasks", group.tasks_fds) if is_v1 else ("cgroup.procs", group.procs_fds)
        fds.append(os.open(f"{path}/{name}", os.O_WRONLY | os.O_CLOEXEC))
        group.in_v2 = group.in_v2 if is_v1 else path
    group.name = ":".join(directories) or None
    return group


def _make(directory: str, controller: str, spec: JailSpec) -> bool:
    try:
        with contextlib.suppress(FileExistsError):  # v2: both controllers in one directory
            os.mkdir(directory)
        _check_takes_processes(directory)
        if controller == "pids":
            write(f"{directory}/pids.max", spec.processes + 1)  # and the keeper
        elif os.path.exists(f"{directory}/memory.max"):
            write(f"{directory}/memory.max", spec.memory_bytes)
            _write_if_there(f"{directory}/memory.swap.max", 0)
        else:
            write(f"{directory}/memory.limit_in_bytes", spec.memory_bytes)
            _write_if_there(f"{directory}/memory.memsw.limit_in_bytes", spec.memory_bytes)
    except OSError:
        with contextlib.suppress(OSError):
            os.rmdir(directory)
        return False
    return True


def _check_takes_processes(directory: str) -> None:
    """v2: the children of a threaded group cannot hold whole processes."""
    if read(f"{directory}/cgroup.type").strip() not in ("", "domain"):
        raise OSError(f"{directory} takes no processes")


def _write_if_there(path: str, value: int) -> None:
    with contextlib.suppress(OSError):
        write(path, value)


def sweep() -> int:
    """Remove empty groups that a worker which was killed left behind; how many there were."""
    removed = 0
    for parent in set(parents().values()):
        for name in os.listdir(parent):
            pid = name.removeprefix(PREFIX).partition("-")[0]
            is_ours = name.startswith(PREFIX) and pid.isdigit()
            if is_ours and not os.path.exists(f"/proc/{pid}"):
                removed += _rmdir(f"{parent}/{name}")  # fails while a process is in it
    return removed


# --- in the host, when the tree has been killed ---------------------------------------------------


def usage(name: str) -> Usage:
    """Peak memory and out-of-memory kills of a jail's groups."""
    killed, peak = False, None
    for directory in name.split(":"):
        for file in ("memory.events", "memory.oom_control"):
            for line in read(f"{directory}/{file}").splitlines():
                word, _, count = line.partition(" ")
                killed = killed or (word == "oom_kill" and int(count) > 0)
        for file in ("memory.peak", "memory.max_usage_in_bytes"):
            text = read(f"{directory}/{file}").strip()
            peak = int(text) if text.isdigit() else peak
    return Usage(killed, peak)


def members(name: str) -> set[int]:
    """Pids in a jail's groups; one that our pid namespace does not show reads 0 and is left out."""
    return {
        int(pid)
        for directory in name.split(":")
        for pid in read(f"{directory}/cgroup.procs").split()
        if pid != "0"  # kill(0) would be our own process group
    }


def count_members(name: str) -> int:
    """Processes that are still in a jail's groups, after a moment for those that are exiting."""
    deadline = time.monotonic() + 0.5
    while members(name) and time.monotonic() < deadline:
        time.sleep(0.002)
    return len(members(name))


def kill_members(name: str) -> None:
    """Kill everything in the groups: at once where the kernel can, else one by one."""
    for directory in name.split(":"):
        with contextlib.suppress(OSError):
            write(f"{directory}/cgroup.kill", 1)
    for _ in range(100):
        pids = members(name)
        if not pids:
            return
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.002)


def remove(name: str) -> bool:
    """Remove a jail's groups; a killed process may hold them busy for a moment."""
    deadline = time.monotonic() + _REMOVE_LIMIT_S
    left = name.split(":")
    while True:
        left = [path for path in left if not _rmdir(path)]
        if not left or time.monotonic() > deadline:
            return not left
        time.sleep(0.002)


def _rmdir(path: str) -> bool:
    try:
        os.rmdir(path)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
