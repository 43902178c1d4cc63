"""What the doctor can see without importing torch: Python, compiler, headers, disk, control groups.

Each check is data, with the fix beside it. What needs torch, Triton, a driver or a jail runs in a
child of its own (`kernelgym.cli.probing`).
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
import sysconfig
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from kernelgym import __version__

Status = Literal["ok", "warning", "failed"]

_SYSTEM_FIX = "make system (as root), or apt-get install gcc libc6-dev python3-dev"
_MIN_FREE_BYTES = 2 << 30


@dataclass(frozen=True)
class Check:
    """One line of the doctor."""

    name: str
    status: Status
    found: str
    """What is there."""
    fix: str = ""
    """What to do about it, when it is not ``ok``."""


def machine_checks() -> list[Check]:
    """Everything that is known without starting another process."""
    return [_python(), _compiler(), _headers(), _disk(), _shared_memory(), _cgroups()]


def _python() -> Check:
    found = (
        f"{platform.python_version()} at {sys.executable}, kernelgym {__version__},"
        f" Linux {platform.release()} {platform.machine()}, {os.cpu_count()} CPUs"
    )
    return Check("python", "ok", found)


def _compiler() -> Check:
    compiler = os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return Check("compiler", "failed", "no gcc: Triton builds launchers with it", _SYSTEM_FIX)
    return Check("compiler", "ok", compiler)


def _headers() -> Check:
    header = Path(sysconfig.get_paths()["include"], "Python.h")
    if not header.exists():
        return Check("Python.h", "failed", f"no {header}", _SYSTEM_FIX)
    return Check("Python.h", "ok", str(header))


def _disk() -> Check:
    return _space("disk", Path(tempfile.gettempdir()), "free space there, or set TMPDIR")


def _shared_memory() -> Check:
    path = Path("/dev/shm")
    if not path.is_dir():
        return Check("shared memory", "warning", f"no {path}", "mount -t tmpfs tmpfs /dev/shm")
    return _space("shared memory", path, "docker run --shm-size 8g ...")


def _space(name: str, path: Path, fix: str) -> Check:
    free = shutil.disk_usage(path).free
    found = f"{free / (1 << 30):.1f} GiB free in {path}"
    return (
        Check(name, "ok", found) if free >= _MIN_FREE_BYTES else Check(name, "warning", found, fix)
    )


def _cgroups() -> Check:
    unified = Path("/sys/fs/cgroup/cgroup.controllers")
    if unified.exists():
        have = set(unified.read_text().split())
        where = Path("/sys/fs/cgroup")
        version = "v2"
    else:
        mounted = [name for name in ("memory", "pids") if Path("/sys/fs/cgroup", name).is_dir()]
        have, where, version = set(mounted), Path("/sys/fs/cgroup", "memory"), "v1"
    missing = {"memory", "pids"} - have
    if missing:
        return Check(
            "control groups",
            "warning",
            f"{version}, without {' and '.join(sorted(missing))}: limits are polled instead",
            "let the worker have a delegated cgroup (systemd-run --user -p Delegate=yes ...)",
        )
    if not os.access(where, os.W_OK):
        return Check(
            "control groups",
            "warning",
            f"{version}, {where} is not writable: limits are polled instead",
            "systemd-run --user --scope -p Delegate=yes kernelgym ...",
        )
    return Check("control groups", "ok", f"{version}, memory and pids, writable")
