"""Attacks on other processes: see them, signal them, look into them, trace them."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import signal
from pathlib import Path

from kernelgym.sandbox import linux
from kernelgym.sandbox.attacks.files import can_read
from kernelgym.sandbox.attacks.target import Target, idle_child, open_close, succeeds

_PTRACE_ATTACH, _PTRACE_DETACH = 16, 17


def signal_outside(target: Target) -> list[str]:
    """Reach processes outside by signal: by number, by group, and init or the keeper."""
    got = [f"may signal {pid}" for pid in target.strangers() if succeeds(os.kill, pid, 0)]
    for pid in target.strangers():
        with contextlib.suppress(OSError):
            fd = os.pidfd_open(pid)
            if succeeds(signal.pidfd_send_signal, fd, 0):
                got.append(f"may signal {pid} by pidfd")
            os.close(fd)
    return got


def inspect_outside(target: Target) -> list[str]:
    """Look into other processes: ptrace, memory, maps, environment, descriptors, limits."""
    got: list[str] = []
    for pid in target.strangers():
        for name in ("mem", "maps", "environ", "fd", "root", "cwd", "ns"):
            path = f"/proc/{pid}/{name}"
            opened = can_read(path) if name != "mem" else succeeds(open_close, path)
            if opened:
                got.append(f"read {path}")
        if succeeds(_read_memory_of, pid):
            got.append(f"read the memory of {pid}")
        if succeeds(linux.syscall, "prlimit64", pid, 0, None, None):
            got.append(f"may change limits of {pid}")
        if succeeds(linux.syscall, "kcmp", os.getpid(), pid, 0, 0, 0):
            got.append(f"compared itself with {pid}")
    return got


def see_processes(target: Target) -> list[str]:
    """List processes that are not our own."""
    own = {os.getpid(), os.getppid()}
    seen = [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) not in own]
    return [f"sees process {pid}" for pid in seen if not _is_descendant(pid)][:5]


def _is_descendant(pid: int) -> bool:
    try:
        parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return True
    return parent == os.getpid()


def trace(target: Target) -> list[str]:
    """Attach to another process, or let a child be traced, by ptrace."""
    got: list[str] = []
    for pid in target.strangers():
        if succeeds(linux.syscall, "ptrace", _PTRACE_ATTACH, pid, 0, 0):
            _detach(pid)
            got.append(f"traced {pid}")
    child, hold = idle_child()
    if succeeds(linux.syscall, "ptrace", _PTRACE_ATTACH, child, 0, 0):
        _detach(child)
        got.append("traced its own child")
    os.close(hold)
    os.waitpid(child, 0)
    return got


def _detach(pid: int) -> None:
    os.waitpid(pid, 0)
    linux.syscall("ptrace", _PTRACE_DETACH, pid, 0, 0)


def _read_memory_of(pid: int) -> None:
    """process_vm_readv of one byte at an address that is mapped in every fork of us."""
    value = ctypes.c_char(b"x")

    class Range(ctypes.Structure):
        _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))

    buffer = ctypes.create_string_buffer(1)
    here = Range(ctypes.addressof(buffer), 1)
    there = Range(ctypes.addressof(value), 1)
    if linux.syscall("process_vm_readv", pid, here, 1, there, 1, 0) != 1:
        raise OSError(errno.EFAULT, "nothing read")
