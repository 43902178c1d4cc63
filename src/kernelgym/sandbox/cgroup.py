"""Control groups of one jail: memory and number of processes, cgroup v1 or v2.

A jail gets a group of its own in every hierarchy that has a controller for it, below the group of
the process that forks it (as root without systemd: below the nearest one that can). In v2 a group
that holds processes cannot give controllers to children, unless it is the root: `delegate` moves
the worker into a leaf first. What cannot be had is named in `Group.missing`; the keeper then polls.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import time
from dataclasses import dataclass, field

from kernelgym.sandbox.jail_spec import JailSpec

PREFIX = "kernelgym-"
_LEAF = "kernelgym-worker"
_SERVICE_MANAGER = "/run/systemd/system"
"""Exists where systemd runs, which owns every group that it did not delegate."""
_CONTROLLERS = ("memory", "pids")
_REMOVE_LIMIT_S = 2.0
_counter = itertools.count()


@dataclass
class Group:
    """The groups of one jail, with a descriptor open on the file of each by which one joins it.

    Joining by ``cgroup.procs`` waits for a grace period of the kernel, milliseconds: the caller
    does it for its child, which goes on meanwhile. v1's ``tasks`` has a short way for a thread that
    moves itself.
    """

    name: str | None
    missing: set[str]
    tasks_fds: list[int] = field(default_factory=list)
    procs_fds: list[int] = field(default_factory=list)

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
        for fd in self.tasks_fds + self.procs_fds:
            os.close(fd)
        self.tasks_fds, self.procs_fds = [], []


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
    parents = _parents()
    for controller in _CONTROLLERS:
        protection = f"{controller}_cgroup"
        if protection in spec.without:
            continue
        parent = parents.get(controller)
        directory = f"{parent}/{leaf}" if parent else None
        if directory is None or not _make(directory, controller, spec):
            group.missing.add(protection)
        elif directory not in directories:
            directories.append(directory)
    for path in directories:
        is_v1 = os.path.exists(f"{path}/tasks")
        name, fds = ("tasks", group.tasks_fds) if is_v1 else ("cgroup.procs", group.procs_fds)
        fds.append(os.open(f"{path}/{name}", os.O_WRONLY | os.O_CLOEXEC))
    group.name = ":".join(directories) or None
    return group


def _make(directory: str, controller: str, spec: JailSpec) -> bool:
    try:
        with contextlib.suppress(FileExistsError):  # v2: both controllers in one directory
            os.mkdir(directory)
        _check_takes_processes(directory)
        if controller == "pids":
            _write(f"{directory}/pids.max", spec.processes + 1)  # and the keeper
        elif os.path.exists(f"{directory}/memory.max"):
            _write(f"{directory}/memory.max", spec.memory_bytes)
            _write_if_there(f"{directory}/memory.swap.max", 0)
        else:
            _write(f"{directory}/memory.limit_in_bytes", spec.memory_bytes)
            _write_if_there(f"{directory}/memory.memsw.limit_in_bytes", spec.memory_bytes)
    except OSError:
        with contextlib.suppress(OSError):
            os.rmdir(directory)
        return False
    return True


def _check_takes_processes(directory: str) -> None:
    """v2: the children of a threaded group cannot hold whole processes."""
    if _read(f"{directory}/cgroup.type").strip() not in ("", "domain"):
        raise OSError(f"{directory} takes no processes")


def _write(path: str, value: int | str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)  # never creates a file where no cgroup is
    try:
        os.write(fd, str(value).encode())
    finally:
        os.close(fd)


def _write_if_there(path: str, value: int) -> None:
    with contextlib.suppress(OSError):
        _write(path, value)


def _parents() -> dict[str, str]:
    """Controller to the directory in which a child with it can be made.

    A process is in one group of v2 only, so there it is one directory for both: the nearest that
    offers most.
    """
    hierarchies, mounts = _memberships(), _mounts()
    found = {
        controller: (mounts[controller] + hierarchies[controller]).rstrip("/")
        for controller in _CONTROLLERS
        if controller in hierarchies and controller in mounts
    }
    if "" in hierarchies and "" in mounts:
        wanted = [controller for controller in _CONTROLLERS if controller not in found]
        best: dict[str, str] = {}
        for directory in _candidates(mounts[""], hierarchies[""]):
            offered = {name: directory for name in wanted if _offers(directory, name)}
            if len(offered) > len(best):
                best = offered
            if len(best) == len(wanted):
                break
        found |= best
    return found


def _parent(controller: str) -> str | None:
    """Directory in which a child with this controller can be made; None where there is none."""
    return _parents().get(controller)


def _candidates(mount: str, membership: str) -> list[str]:
    """v2: groups below which a jail's may be made, nearest first.

    Above our own only as root, and only where no service manager owns the tree.
    """
    own = os.path.normpath(mount + membership)
    if os.path.basename(own) == _LEAF:
        own = os.path.dirname(own)
    found = [own]
    if os.geteuid() == 0 and not os.path.isdir(_SERVICE_MANAGER):
        while len(found[-1]) > len(mount):
            found.append(os.path.dirname(found[-1]))
    return found


def _offers(directory: str, controller: str) -> bool:
    """Whether children of a v2 group have a controller, which is asked for where it is not on.

    Never asked for in a group that holds processes, the true root (which has no type) excepted:
    ``memory`` would be refused, but ``pids`` would make it a threaded one, whose children take no
    processes at all.
    """
    kind = _read(f"{directory}/cgroup.type").strip()
    if kind not in ("", "domain"):
        return False
    if controller in _read(f"{directory}/cgroup.subtree_control").split():
        return True
    if controller not in _read(f"{directory}/cgroup.controllers").split():
        return False
    if kind and _read(f"{directory}/cgroup.procs").split():
        return False
    try:
        _write(f"{directory}/cgroup.subtree_control", f"+{controller}")
    except OSError:
        return False
    return True


def delegate() -> bool:
    """v2: make our own group one whose children can be limited.

    For a worker that was started in a group of its own (a systemd unit with ``Delegate=yes``, a
    container): call it once, before anything is forked. Where processes in the group are in the
    way, they are moved into a leaf; the true root group needs no move and allows none. Where
    systemd runs only what it has delegated is changed. False where it was not possible.
    """
    hierarchies, mounts = _memberships(), _mounts()
    if "" not in hierarchies or "" not in mounts:
        return False
    own = _candidates(mounts[""], hierarchies[""])[0]
    if all(_offers(own, controller) for controller in _CONTROLLERS):
        return True
    if not set(_CONTROLLERS) <= set(_read(f"{own}/cgroup.controllers").split()):
        return False  # moving anybody would not help
    if os.path.isdir(_SERVICE_MANAGER) and not _is_delegated(own):
        return False
    try:
        os.makedirs(f"{own}/{_LEAF}", exist_ok=True)
    except OSError:
        return False
    for pid in _read(f"{own}/cgroup.procs").split():
        with contextlib.suppress(OSError):  # it has ended, or belongs to the kernel
            _write(f"{own}/{_LEAF}/cgroup.procs", pid)
    return all(_offers(own, controller) for controller in _CONTROLLERS)


def _is_delegated(directory: str) -> bool:
    """Whether systemd has marked a group as its owner's to arrange."""
    for name in ("user.delegate", "trusted.delegate"):
        with contextlib.suppress(OSError):
            if os.getxattr(directory, name) == b"1":
                return True
    return False


def facts() -> dict[str, object]:
    """What this machine offers and what we make of it, for reports."""
    hierarchies, mounts = _memberships(), _mounts()
    found: dict[str, object] = {
        "membership": _read("/proc/self/cgroup").split(),
        "mounts": [line for line in _read("/proc/self/mounts").splitlines() if " cgroup" in line],
        "parents": _parents(),
    }
    if "" in hierarchies and "" in mounts:
        found["groups"] = {
            directory: {
                name: " ".join(_read(f"{directory}/cgroup.{name}").split())[:400]
                for name in ("type", "controllers", "subtree_control", "procs")
            }
            for directory in _candidates(mounts[""], hierarchies[""])
        }
    return found


def _memberships() -> dict[str, str]:
    """Controller (v2: "") to the path of our group in its hierarchy."""
    found: dict[str, str] = {}
    for line in _read("/proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            found[controller] = path
    return found


def _mounts() -> dict[str, str]:
    """Controller (v2: "") to the mount point of its hierarchy."""
    found: dict[str, str] = {}
    for line in _read("/proc/self/mounts").splitlines():
        _, target, kind, options, *_ = line.split(" ")
        if kind == "cgroup2":
            found.setdefault("", target)
        elif kind == "cgroup":
            for option in options.split(","):
                found.setdefault(option, target)
    return found


def _read(path: str) -> str:
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


def sweep() -> int:
    """Remove empty groups that a worker which was killed left behind; how many there were."""
    removed = 0
    for parent in set(_parents().values()):
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
            for line in _read(f"{directory}/{file}").splitlines():
                word, _, count = line.partition(" ")
                killed = killed or (word == "oom_kill" and int(count) > 0)
        for file in ("memory.peak", "memory.max_usage_in_bytes"):
            text = _read(f"{directory}/{file}").strip()
            peak = int(text) if text.isdigit() else peak
    return Usage(killed, peak)


def members(name: str) -> set[int]:
    """Pids in a jail's groups; one that our pid namespace does not show reads 0 and is left out."""
    return {
        int(pid)
        for directory in name.split(":")
        for pid in _read(f"{directory}/cgroup.procs").split()
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
            _write(f"{directory}/cgroup.kill", 1)
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
