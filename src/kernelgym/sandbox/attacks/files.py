"""Attacks on files: write outside, read what is hidden, devices, control groups."""

from __future__ import annotations

import glob
import os

from kernelgym.sandbox import sealing
from kernelgym.sandbox.attacks.target import PROBE, Target, open_close, succeeds


def write_outside(target: Target) -> list[str]:
    """Write where others read: system directories, packages, /sys, /proc/sys."""
    return [f"wrote {path}" for path in target.write if _can_write(path)]


def _can_write(path: str) -> bool:
    try:
        if os.path.isdir(path):
            probe = os.path.join(path, f"{PROBE}-{os.getpid()}")
            os.close(os.open(probe, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            os.unlink(probe)
        else:
            os.close(os.open(path, os.O_WRONLY))  # opened, not written
    except OSError:
        return False
    return True


def read_hidden(target: Target) -> list[str]:
    """Read what is covered, by its path and through other processes' views of the root."""
    paths = list(target.read)
    paths += [f"/proc/{pid}/root{path}" for pid in (1, *target.strangers()) for path in target.read]
    return [f"read {path}" for path in paths if can_read(path)]


def can_read(path: str) -> bool:
    """Whether a file, or a directory's list of names, can be read."""
    try:
        if os.path.isdir(path):
            return bool(os.listdir(path))
        with open(path, "rb") as file:
            return bool(file.read(1))
    except OSError:
        return False


def devices(target: Target) -> list[str]:
    """Open or make a device that is not one of the harmless ones."""
    harmless = {"null", "zero", "full", "random", "urandom", "tty", "ptmx"}
    got: list[str] = []
    sealed = glob.glob(sealing.NODES) if target.sealed else []
    for root, _, names in os.walk("/dev"):
        for name in names:
            path = os.path.join(root, name)
            known = name in harmless or name.startswith("nvidia") or os.path.islink(path)
            if (not known or path in sealed) and succeeds(open_close, path):
                got.append(f"opened {path}")
    if succeeds(_make_device):
        got.append("made a device")
    return got[:8]


def _make_device() -> None:
    path = f"/tmp/{PROBE}-device-{os.getpid()}"
    os.mknod(path, 0o600 | 0o060000, os.makedev(8, 0))
    os.unlink(path)


def leave_cgroup(_target: Target) -> list[str]:
    """Move to another control group, or reach the files that decide the limits."""
    got: list[str] = []
    for root in ("/sys/fs/cgroup", *(f"/sys/fs/cgroup/{name}" for name in ("memory", "pids"))):
        for name in ("cgroup.procs", "cgroup.threads"):
            if succeeds(_write, f"{root}/{name}", b"0"):
                got.append(f"moved to {root}")
    return got


def _write(path: str, data: bytes) -> None:
    fd = os.open(path, os.O_WRONLY)
    try:
        os.write(fd, data)
    finally:
        os.close(fd)
