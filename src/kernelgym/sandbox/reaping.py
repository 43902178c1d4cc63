"""Killing a process tree and knowing that it is dead, from inside its keeper.

In a pid namespace the kernel does it: init kills all it sees, and nothing outlives init. Elsewhere
the keeper is a subreaper, so every descendant that loses its parent becomes its child: when it has
no child left (ECHILD), nothing of the tree is alive. The race against a fork bomb is won by
repeating, and at once where the tree has a user of its own.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time

from kernelgym.errors import SandboxError
from kernelgym.sandbox import capabilities

FIRST_OWN_UID = 0x7000_0000
"""Users from here on (plus the keeper's pid) belong to nobody else: above every range that systemd
or a distribution hands out."""
_RETRY_S = 0.002


def is_own(uid: int | None) -> bool:
    """Whether a uid is one that we made up for one jail."""
    return uid is not None and FIRST_OWN_UID <= uid < 0x8000_0000


def is_init() -> bool:
    """Whether this process is pid 1 of a namespace whose parent lies outside it."""
    return os.getpid() == 1 and os.getppid() == 0


def reap_available() -> tuple[dict[int, int], bool]:
    """Wait statuses of children that have ended, and whether any child is left."""
    ended: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended, False
        if pid == 0:
            return ended, True
        ended[pid] = status


def kill_all(uid: int | None) -> dict[int, int]:
    """Kill the whole tree below this keeper; wait statuses of what was reaped."""
    return kill_namespace() if is_init() else kill_descendants(uid)


def kill_namespace() -> dict[int, int]:
    """As init: kill everything else in the namespace; returns what was reaped.

    Anywhere else the same call would kill every process of the machine: it is refused.
    """
    if not is_init():
        raise SandboxError("not the init of a namespace of our own")
    reaped: dict[int, int] = {}
    while True:
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)
        try:
            while True:
                pid, status = os.waitpid(-1, 0)
                reaped[pid] = status
        except ChildProcessError:
            return reaped


def kill_descendants(uid: int | None) -> dict[int, int]:
    """As subreaper: kill until no child is left.

    ``uid``: the tree's user. Only one that we made up for this jail is killed as a whole: any other
    may have processes that are not ours.
    """
    reaped: dict[int, int] = {}
    while True:
        ended, left = reap_available()
        reaped.update(ended)
        if not left:
            return reaped
        if uid is not None and is_own(uid):
            with contextlib.suppress(OSError):  # no process left for the helper
                _kill_user(uid)
        for pid in descendants(os.getpid()):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_RETRY_S)


def _kill_user(uid: int) -> None:
    """Kill all processes of a user at once: no fork can slip through, unlike in a walk."""
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(OSError):
            os.setresuid(uid, uid, uid)
            capabilities.set_exactly(())
            if os.getresuid() == (uid, uid, uid) and capabilities.effective() == 0:
                os.kill(-1, signal.SIGKILL)
        os._exit(0)
    os.waitpid(pid, 0)


def descendants(root: int) -> list[int]:
    """Pids below ``root``, from one walk over /proc."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            parent = _parent(name)
            if parent is not None:
                children.setdefault(parent, []).append(int(name))
    found: list[int] = []
    pending = [root]
    while pending:
        below = children.pop(pending.pop(), [])
        found += below
        pending += below
    return found


def _parent(pid: str) -> int | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return None
