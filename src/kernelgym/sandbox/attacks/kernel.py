"""Attacks by privilege: namespaces, mounts, capabilities, set-uid, refused system calls."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

from kernelgym.sandbox import linux, seccomp, syscalls
from kernelgym.sandbox.attacks.target import Target, in_child

_MOUNT_FLAGS = linux.MS_NOSUID | linux.MS_NODEV


def namespaces(_target: Target) -> list[str]:
    """Make or enter namespaces, by every call that can (in a child, so that nothing sticks)."""
    got: list[str] = []
    for name in ("NEWNS", "NEWUTS", "NEWIPC", "NEWUSER", "NEWPID", "NEWNET", "NEWCGROUP"):
        flag = int(getattr(linux, f"CLONE_{name}"))
        if in_child(lambda flag=flag: linux.unshare(flag)):  # type: ignore[misc]
            got.append(f"unshare {name}")
    for name in ("mnt", "user", "net"):
        if in_child(lambda name=name: _enter(name)):  # type: ignore[misc]
            got.append(f"entered the {name} namespace of pid 1")
    return got


def _enter(name: str) -> None:
    fd = os.open(f"/proc/1/ns/{name}", os.O_RDONLY)
    linux.setns(fd, 0)


def change_mounts(target: Target) -> list[str]:
    """Mount, unmount, remount, change root."""
    attempts: dict[str, Callable[[], object]] = {
        "mounted a tmpfs": lambda: linux.mount("x", "/tmp", "tmpfs", _MOUNT_FLAGS),
        "mounted proc": lambda: linux.mount("proc", "/tmp", "proc", 0),
        "remounted /": lambda: linux.mount("none", "/", None, 0x20 | 0x1000),
        "cloned a mount": lambda: linux.open_tree("/"),
        "changed mount attributes": lambda: linux.mount_setattr("/", 0, recursive=False),
        "changed root": lambda: os.chroot("/tmp"),
    }
    attempts |= {
        f"uncovered {path}": lambda path=path: linux.syscall("umount2", os.fsencode(path), 2)  # type: ignore[misc]
        for path in ("/tmp", "/dev", "/proc", *target.read)
    }
    return [text for text, attempt in attempts.items() if in_child(attempt, private=True)]


def privileges(_target: Target) -> list[str]:
    """Get a capability or another user, by call or by running a set-uid program."""
    got: list[str] = []
    status = Path("/proc/self/status").read_text()
    for line in status.splitlines():
        name, _, value = line.partition(":")
        if name in ("CapEff", "CapPrm", "CapInh", "CapBnd", "CapAmb") and int(value, 16):
            got.append(f"{name} is {value.strip()}")
    if in_child(lambda: os.setuid(os.getuid() ^ 1)):
        got.append("changed its user")
    for program in ("/usr/bin/su", "/bin/su", "/usr/bin/mount", "/usr/bin/passwd"):
        if _runs_as_root(program):
            got.append(f"ran {program} as root")
    return got


def _runs_as_root(program: str) -> bool:
    """Whether exec of a set-uid program would make us root: it has the bit and we honour it."""
    try:
        is_set_uid = bool(os.stat(program).st_mode & 0o4000)
        no_suid_mount = bool(os.statvfs(program).f_flag & os.ST_NOSUID)
    except OSError:
        return False
    no_new_privs = "NoNewPrivs:\t1" in Path("/proc/self/status").read_text()
    return is_set_uid and not no_suid_mount and not no_new_privs


def refused_calls(_target: Target) -> list[str]:
    """Call everything that the filter refuses; a wrong argument must not even be looked at."""
    table = syscalls.table()[1]
    expected = dict.fromkeys(seccomp.REFUSED.split(), errno.EPERM)
    expected |= dict.fromkeys(seccomp.ABSENT.split(), errno.ENOSYS)
    return [
        name
        for name, error in expected.items()
        if name in table and call_with_nonsense(name) != error
    ]


def call_with_nonsense(name: str) -> int:
    """Errno of a call whose arguments mean nothing."""
    try:
        linux.syscall(name, -1, -1, -1, -1, -1, -1)
    except OSError as error:
        return error.errno or 0
    return 0
