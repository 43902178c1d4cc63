"""What a compiled kernel needs of a multiprocessor, read from its binary with Triton's
`cuobjdump`."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

_USAGE = re.compile(r"REG:(\d+) STACK:(\d+) SHARED:(\d+) LOCAL:(\d+)")
_TIMEOUT_S = 20

MAX_SHARED_BYTES = {
    70: 98_304, 75: 65_536, 80: 166_912, 86: 101_376, 87: 166_912, 89: 101_376, 90: 232_448,
    100: 232_448, 103: 232_448, 110: 232_448, 120: 101_376, 121: 101_376,
}  # fmt: skip
"""Most shared memory one block may ask for, by compute capability, in bytes."""


@dataclass(frozen=True)
class Usage:
    """Resources a thread."""

    registers: int
    spill_bytes: int
    """Local memory: spilled registers and arrays that are indexed at run time."""


def tool() -> Path:
    """The `cuobjdump` that comes with Triton."""
    import triton

    return Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"


def usage(cubin: bytes, directory: Path) -> Usage | None:
    """Registers and local memory of the one kernel in ``cubin``; None when it cannot be read."""
    path = directory / "kernel.cubin"
    path.write_bytes(cubin)
    try:
        done = subprocess.run(
            [tool(), "-res-usage", path], capture_output=True, text=True, timeout=_TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _USAGE.search(done.stdout)
    if found is None:
        return None
    registers, stack, _, local = (int(number) for number in found.groups())
    return Usage(registers, stack + local)
