"""Namespaces: as root directly, else inside a user namespace.

A pid namespace applies to the *next* child of the process that asks for it. As root the forking
process asks, forks, and takes its own namespace back, which saves a third process. Inside a user
namespace that way is closed (nobody returns from one), so a scout enters it and forks the keeper.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator

from kernelgym.sandbox import capabilities, linux
from kernelgym.sandbox.jail_spec import JailSpec

_FLAGS = {
    "mount_namespace": linux.CLONE_NEWNS,
    "net_namespace": linux.CLONE_NEWNET,
    "ipc_namespace": linux.CLONE_NEWIPC,
    "uts_namespace": linux.CLONE_NEWUTS,
    "cgroup_namespace": linux.CLONE_NEWCGROUP,
}
NOBODY = 65534
"""User and group inside a user namespace; outside it is the caller."""
_HOST_NAME = "jail"


def is_privileged() -> bool:
    """Whether namespaces can be made without a user namespace."""
    return os.geteuid() == 0 and capabilities.has("SYS_ADMIN")


@contextlib.contextmanager
def next_child_is_init() -> Iterator[None]:
    """Children forked inside the block are pid 1 of a new pid namespace (one block, one child)."""
    own = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    parent = os.getpid()
    try:
        linux.unshare(linux.CLONE_NEWPID)
        yield
    finally:
        if os.getpid() == parent:
            linux.setns(own, linux.CLONE_NEWPID)
        os.close(own)


def enter_user_namespace(spec: JailSpec) -> None:
    """Enter a user namespace and, with its capabilities, the others; pids from the next fork on."""
    uid, gid = os.geteuid(), os.getegid()
    flags = linux.CLONE_NEWUSER | _flags(spec)
    if "pid_namespace" not in spec.without:
        flags |= linux.CLONE_NEWPID
    linux.unshare(flags)
    linux.prctl(linux.PR_SET_DUMPABLE, 1)  # else /proc/self/uid_map belongs to root
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{NOBODY} {uid} 1"),
        ("gid_map", f"{NOBODY} {gid} 1"),
    ):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)
    linux.prctl(linux.PR_SET_DUMPABLE, 0)


def enter(way: str, spec: JailSpec) -> set[str]:
    """As the keeper: enter what is left to enter; names of what could not be had."""
    missing: set[str] = set()
    if way == "root":
        if not os.path.exists("/proc/self/ns/cgroup"):
            missing.add("cgroup_namespace")
        linux.unshare(_flags(spec, missing))
    if "uts_namespace" not in spec.without:
        socket.sethostname(_HOST_NAME)
    return missing


def _flags(spec: JailSpec, missing: set[str] | frozenset[str] = frozenset()) -> int:
    flags = 0
    for name, flag in _FLAGS.items():
        if name not in spec.without and name not in missing:
            flags |= flag
    return flags
