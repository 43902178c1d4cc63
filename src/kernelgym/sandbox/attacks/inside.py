"""Attacks on what the process itself was given: environment, descriptors, limits."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import subprocess
from pathlib import Path

from kernelgym.sandbox.attacks.target import Target, succeeds


def environment(target: Target) -> list[str]:
    """Find a secret of the host in the environment, as Python, as libc and as /proc know it."""
    secret = target.secret.encode()
    if not secret:
        return []
    places = {"os.environ": repr(dict(os.environ)).encode()}
    with contextlib.suppress(OSError):
        places["/proc/self/environ"] = Path("/proc/self/environ").read_bytes()
    with contextlib.suppress(OSError):
        places["a child's environment"] = subprocess.run(["env"], capture_output=True).stdout
    places["the initial stack"] = _initial_stack()
    return [f"secret in {place}" for place, data in places.items() if secret in data]


def _initial_stack() -> bytes:
    """Memory in which the kernel put arguments and environment at exec."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        if line.endswith("[stack]"):
            start, _, end = line.split(" ")[0].partition("-")
            low = max(int(start, 16), int(end, 16) - (1 << 17))
            return ctypes.string_at(low, int(end, 16) - low)
    return b""


def descriptors(target: Target) -> list[str]:
    """Find descriptors that nobody meant to hand over."""
    known = {0, 1, 2, *target.descriptors}
    got: list[str] = []
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            link = os.readlink(f"/proc/self/fd/{name}")
            if int(name) not in known and not link.endswith("/fd"):
                got.append(f"descriptor {name} is {link}")
            elif int(name) in (0, 1, 2) and link != "/dev/null":
                got.append(f"standard stream {name} is {link}")
    return got


def raise_limits(_target: Target) -> list[str]:
    """Get rid of a resource limit."""
    got: list[str] = []
    for name in ("RLIMIT_CORE", "RLIMIT_FSIZE", "RLIMIT_NOFILE"):
        kind = getattr(resource, name)
        hard = resource.getrlimit(kind)[1]
        if hard == resource.RLIM_INFINITY:
            got.append(f"{name} is unlimited")
        elif succeeds(resource.setrlimit, kind, (hard + 1, hard + 1)):
            resource.setrlimit(kind, (hard, hard))
            got.append(f"raised {name}")
    return got
