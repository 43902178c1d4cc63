"""Start a command in a world where only one kind of jail can be had.

    root     all that root has
    user     an ordinary user, no capability; the interpreter stays readable
    docker   root with Docker's default capabilities, its system calls filtered as Docker filters
             them, control groups read-only

Run as root: ``python world.py WORLD COMMAND...``. The interpreter may live in a home directory that
other users cannot enter; a private mount namespace with a readable path to it takes care of that,
without touching the machine.
"""

import os
import sys

from kernelgym.sandbox import capabilities, linux, seccomp
from kernelgym.sandbox.jail_spec import JailSpec
from kernelgym.sandbox.view import plan_view

ORDINARY_UID = 48_211
DOCKER = (0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 27, 29, 31)
"""CHOWN DAC_OVERRIDE FOWNER FSETID KILL SETGID SETUID SETPCAP NET_BIND_SERVICE NET_RAW SYS_CHROOT
MKNOD AUDIT_WRITE SETFCAP"""
DOCKER_REFUSES = "mount umount2 unshare setns pivot_root open_tree move_mount mount_setattr"


def open_the_way() -> None:
    """Let every user reach the interpreter and this checkout, in a mount namespace of our own."""
    linux.unshare(linux.CLONE_NEWNS)
    linux.mount("none", "/", None, linux.MS_REC | linux.MS_PRIVATE)
    checkout = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    view = plan_view(JailSpec("L1", 1, readable=(checkout,)))
    closed = [path for path in view.covered if not os.stat(path).st_mode & 0o001]
    clones = {path: linux.open_tree(path) for path in view.shown if _is_below(path, closed)}
    for path in closed:
        linux.mount("tmpfs", path, "tmpfs", 0, "mode=755")
    for path, clone in clones.items():
        os.makedirs(path, exist_ok=True)
        linux.move_mount(clone, path)


def _is_below(path: str, directories: list[str]) -> bool:
    return any(path.startswith(directory + "/") for directory in directories)


def become(world: str) -> None:
    if world == "root":
        return
    open_the_way()
    if world == "user":
        capabilities.clear_inheritance()
        os.setgroups([])
        os.setresgid(ORDINARY_UID, ORDINARY_UID, ORDINARY_UID)
        os.setresuid(ORDINARY_UID, ORDINARY_UID, ORDINARY_UID)
        capabilities.set_exactly(())
        return
    if os.path.isdir("/sys/fs/cgroup"):
        linux.mount_setattr("/sys/fs/cgroup", linux.MOUNT_ATTR_RDONLY)
    for number in range(64):
        if number not in DOCKER:
            try:
                linux.prctl(linux.PR_CAPBSET_DROP, number)
            except OSError:
                break
    refusals = [seccomp.Rule(name) for name in DOCKER_REFUSES.split()]
    refusals += [seccomp.Rule("clone", bits=seccomp.NAMESPACE_FLAGS), seccomp.Rule("clone3", 38)]
    seccomp.install(seccomp.program(refusals))


if __name__ == "__main__":
    become(sys.argv[1])
    os.execv(sys.argv[2], sys.argv[2:])
