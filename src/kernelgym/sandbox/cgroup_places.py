"""Where a control group can be made: hierarchies, mounts, what a group of v2 offers its children.

A group of v2 that holds processes cannot give controllers to children, unless it is the root:
`delegate` moves the worker into a leaf first. As root, where no service manager owns the tree, a
group above our own will do. Not covered: the groups of a jail themselves (`cgroup`).
"""

from __future__ import annotations

import contextlib
import os

_LEAF = "kernelgym-worker"
_SERVICE_MANAGER = "/run/systemd/system"
"""Exists where systemd runs, which owns every group that it did not delegate."""
CONTROLLERS = ("memory", "pids")


def parents() -> dict[str, str]:
    """Controller to the directory in which a child with it can be made.

    A process is in one group of v2 only, so there it is one directory for both: the nearest that
    offers most.
    """
    hierarchies, mounted = memberships(), mounts()
    found = {
        controller: (mounted[controller] + hierarchies[controller]).rstrip("/")
        for controller in CONTROLLERS
        if controller in hierarchies and controller in mounted
    }
    if "" in hierarchies and "" in mounted:
        wanted = [controller for controller in CONTROLLERS if controller not in found]
        best: dict[str, str] = {}
        for directory in _candidates(mounted[""], hierarchies[""]):
            offered = {name: directory for name in wanted if _offers(directory, name)}
            if len(offered) > len(best):
                best = offered
            if len(best) == len(wanted):
                break
        found |= best
    return found


def parent(controller: str) -> str | None:
    """Directory in which a child with this controller can be made; None where there is none."""
    return parents().get(controller)


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
    kind = read(f"{directory}/cgroup.type").strip()
    if kind not in ("", "domain"):
        return False
    if controller in read(f"{directory}/cgroup.subtree_control").split():
        return True
    if controller not in read(f"{directory}/cgroup.controllers").split():
        return False
    if kind and read(f"{directory}/cgroup.procs").split():
        return False
    try:
        write(f"{directory}/cgroup.subtree_control", f"+{controller}")
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
    hierarchies, mounted = memberships(), mounts()
    if "" not in hierarchies or "" not in mounted:
        return False
    own = _candidates(mounted[""], hierarchies[""])[0]
    if all(_offers(own, controller) for controller in CONTROLLERS):
        return True
    if not set(CONTROLLERS) <= set(read(f"{own}/cgroup.controllers").split()):
        return False  # moving anybody would not help
    if os.path.isdir(_SERVICE_MANAGER) and not _is_delegated(own):
        return False
    try:
        os.makedirs(f"{own}/{_LEAF}", exist_ok=True)
    except OSError:
        return False
    for pid in read(f"{own}/cgroup.procs").split():
        with contextlib.suppress(OSError):  # it has ended, or belongs to the kernel
            write(f"{own}/{_LEAF}/cgroup.procs", pid)
    return all(_offers(own, controller) for controller in CONTROLLERS)


def _is_delegated(directory: str) -> bool:
    """Whether systemd has marked a group as its owner's to arrange."""
    for name in ("user.delegate", "trusted.delegate"):
        with contextlib.suppress(OSError):
            if os.getxattr(directory, name) == b"1":
                return True
    return False


def facts() -> dict[str, object]:
    """What this machine offers and what we make of it, for reports."""
    hierarchies, mounted = memberships(), mounts()
    found: dict[str, object] = {
        "membership": read("/proc/self/cgroup").split(),
        "mounts": [line for line in read("/proc/self/mounts").splitlines() if " cgroup" in line],
        "parents": parents(),
    }
    if "" in hierarchies and "" in mounted:
        found["groups"] = {
            directory: {
                name: " ".join(read(f"{directory}/cgroup.{name}").split())[:400]
                for name in ("type", "controllers", "subtree_control", "procs")
            }
            for directory in _candidates(mounted[""], hierarchies[""])
        }
    return found


def memberships() -> dict[str, str]:
    """Controller (v2: "") to the path of our group in its hierarchy."""
    found: dict[str, str] = {}
    for line in read("/proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            found[controller] = path
    return found


def mounts() -> dict[str, str]:
    """Controller (v2: "") to the mount point of its hierarchy."""
    found: dict[str, str] = {}
    for line in read("/proc/self/mounts").splitlines():
        _, target, kind, options, *_ = line.split(" ")
        if kind == "cgroup2":
            found.setdefault("", target)
        elif kind == "cgroup":
            for option in options.split(","):
                found.setdefault(option, target)
    return found


def read(path: str) -> str:
    """Text of a file; empty when it cannot be read."""
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


def write(path: str, value: int | str) -> None:
    """Write a value into a file that exists."""
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)  # never creates a file where no cgroup is
    try:
        os.write(fd, str(value).encode())
    finally:
        os.close(fd)
