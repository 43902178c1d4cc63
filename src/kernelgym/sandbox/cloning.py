"""Fork straight into a control group (v2): no move afterwards, which waits for the whole machine.

Writing to ``cgroup.procs`` waits until every processor has passed a quiet state: 15 to 35 ms on
16 cores, several times the rest of a jail's start. A child that is born in the group needs no move.

The C library's ``fork`` cannot name a group, so the system call is made directly, with the
interpreter's own steps around it. What the C library does at a fork is not done: handlers of
``pthread_atfork`` do not run, and its idea of the thread's number is the parent's. So this is for a
keeper, which runs our code alone and forks the jailed process in the ordinary way.
"""

from __future__ import annotations

import ctypes
import os
import signal

from kernelgym.sandbox import syscalls

_CLONE_INTO_CGROUP = 0x200000000
_library = ctypes.PyDLL(None, use_errno=True)  # calls keep the interpreter's lock, as fork does
_library.syscall.restype = ctypes.c_long


class _Arguments(ctypes.Structure):
    """``struct clone_args`` up to ``cgroup``."""

    _fields_ = tuple(
        (name, ctypes.c_uint64)
        for name in (
            *("flags", "pidfd", "child_tid", "parent_tid", "exit_signal", "stack", "stack_size"),
            *("tls", "set_tid", "set_tid_size", "cgroup"),
        )
    )


def fork_into(group_fd: int) -> int:
    """Like `os.fork`, with the child in the group whose directory is open as ``group_fd``.

    Raises ``OSError`` where the kernel, or a filter (Docker's), does not know the call or refuses.
    """
    arguments = _Arguments(
        flags=_CLONE_INTO_CGROUP, exit_signal=int(signal.SIGCHLD), cgroup=group_fd
    )
    number = ctypes.c_long(syscalls.number("clone3"))
    size = ctypes.c_size_t(ctypes.sizeof(arguments))
    interpreter = ctypes.pythonapi
    interpreter.PyOS_BeforeFork()
    pid = int(_library.syscall(number, ctypes.byref(arguments), size))
    if pid == 0:
        interpreter.PyOS_AfterFork_Child()
        return 0
    error = ctypes.get_errno()
    interpreter.PyOS_AfterFork_Parent()
    if pid < 0:
        raise OSError(error, f"clone3: {os.strerror(error)}")
    return pid
