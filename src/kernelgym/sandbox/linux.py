"""The few Linux calls that Python 3.11 does not offer, through ctypes on the C library.

Every function raises ``OSError`` with the call's name. Nothing here decides anything; the jail's
other modules do. Not covered: architectures other than x86_64 and aarch64 (`syscalls`).
"""

from __future__ import annotations

import ctypes
import os

from kernelgym.sandbox import syscalls

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long

CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_REC = 0x4000
MS_PRIVATE = 0x40000
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MNT_DETACH = 2

PR_SET_PDEATHSIG = 1
PR_GET_DUMPABLE = 3
PR_SET_DUMPABLE = 4
PR_CAPBSET_READ = 23
PR_CAPBSET_DROP = 24
PR_SET_SECUREBITS = 28
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_CLEAR_ALL = 4

AT_FDCWD = -100
AT_EMPTY_PATH = 0x1000
AT_RECURSIVE = 0x8000
AT_SYMLINK_NOFOLLOW = 0x100
OPEN_TREE_CLONE = 1
OPEN_TREE_CLOEXEC = os.O_CLOEXEC
MOVE_MOUNT_F_EMPTY_PATH = 0x4
MOUNT_ATTR_RDONLY = 0x1
MOUNT_ATTR_NOSUID = 0x2
MOUNT_ATTR_NODEV = 0x4
MOUNT_ATTR_NOEXEC = 0x8


class _MountAttr(ctypes.Structure):
    _fields_ = (
        ("attr_set", ctypes.c_uint64),
        ("attr_clr", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns_fd", ctypes.c_uint64),
    )


def _checked(name: str, result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return result


def syscall(name: str, *arguments: int | bytes | ctypes.Structure | None) -> int:
    """Call a system call by name; integers, byte strings, structures and None are passed on."""
    values: list[object] = []
    for argument in arguments:
        if isinstance(argument, int):
            values.append(ctypes.c_long(argument))
        elif isinstance(argument, ctypes.Structure):
            values.append(ctypes.byref(argument))
        else:
            values.append(ctypes.c_char_p(argument))
    number = ctypes.c_long(syscalls.number(name))
    return _checked(name, int(_libc.syscall(number, *values)))


def prctl(option: int, argument: int = 0, third: int = 0) -> int:
    """Set or read an attribute of the calling process."""
    values = [ctypes.c_ulong(value) for value in (argument, third, 0, 0)]
    return _checked(f"prctl({option})", int(_libc.prctl(ctypes.c_int(option), *values)))


def unshare(flags: int) -> None:
    """Give the calling process (for pids: its next children) namespaces of its own."""
    _checked("unshare", int(_libc.unshare(ctypes.c_int(flags))))


def setns(fd: int, kind: int) -> None:
    """Enter the namespace behind ``fd``."""
    _checked("setns", int(_libc.setns(ctypes.c_int(fd), ctypes.c_int(kind))))


def mount(source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    """Mount a file system, or change the propagation of a mount."""
    result = _libc.mount(
        os.fsencode(source),
        os.fsencode(target),
        None if kind is None else kind.encode(),
        ctypes.c_ulong(flags),
        None if data is None else data.encode(),
    )
    _checked(f"mount {kind or flags} on {target}", int(result))


def open_tree(path: str, *, recursive: bool = True) -> int:
    """A private, unattached copy of the mounts at ``path``, as a descriptor."""
    flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | (AT_RECURSIVE if recursive else 0)
    return syscall("open_tree", AT_FDCWD, os.fsencode(path), flags)


def move_mount(fd: int, target: str) -> None:
    """Attach what `open_tree` returned at ``target``."""
    syscall("move_mount", fd, b"", AT_FDCWD, os.fsencode(target), MOVE_MOUNT_F_EMPTY_PATH)


def mount_setattr(where: int | str, attributes: int, *, recursive: bool = True) -> None:
    """Add attributes (``MOUNT_ATTR_*``) to a mount, given by path or by descriptor."""
    attr = _MountAttr(attr_set=attributes)
    flags = AT_RECURSIVE if recursive else 0
    size = ctypes.sizeof(attr)
    if isinstance(where, int):
        syscall("mount_setattr", where, b"", flags | AT_EMPTY_PATH, attr, size)
    else:
        syscall("mount_setattr", AT_FDCWD, os.fsencode(where), flags, attr, size)


def madvise(start: int, size: int, advice: int) -> None:
    """Advise the kernel about a range of the process's own memory."""
    values = (ctypes.c_void_p(start), ctypes.c_size_t(size), ctypes.c_int(advice))
    _checked(f"madvise({advice})", int(_libc.madvise(*values)))


def erase(start: int, end: int) -> None:
    """Overwrite a range of the process's own memory with zeros."""
    ctypes.memset(ctypes.c_void_p(start), 0, end - start)
