"""Facts about GPUs from NVML, asked for in a throw-away child with a deadline.

NVML can hang with a driver that is in trouble, and it opens device files that no forking process
may hold. So nobody imports it here: `facts` starts ``python -m kernelgym.worker.gpu``, which loads
``libnvidia-ml.so.1`` through ctypes, prints JSON and ends; a child that does not answer is killed.

Imports no torch. Not covered: MIG instances (the parent device is described).
"""

from __future__ import annotations

import ctypes
import json
import os
import stat
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from typing import Any

from kernelgym.errors import ServiceError

DEADLINE_S = 10.0
GATE_DIRECTORY = "kernelgym-gates"
CONNECTIONS = "1"
"""Hardware queues of every context, see `kernelgym.cuda.device`, which needs torch."""

_THROTTLE = {
    0x1: "idle", 0x2: "application clocks", 0x4: "power cap", 0x8: "hardware slowdown",
    0x10: "sync boost", 0x20: "software thermal", 0x40: "hardware thermal", 0x80: "power brake",
    0x100: "display clocks",
}  # fmt: skip
HARMLESS = frozenset({"idle", "application clocks"})
_SM, _MEMORY = 1, 2
_MAX_PROCESSES = 64


@dataclass(frozen=True)
class GpuFacts:
    """What NVML says about one GPU now."""

    index: int
    name: str
    uuid: str
    driver: str
    memory_bytes: int
    used_bytes: int
    sm_clock_mhz: int
    memory_clock_mhz: int
    throttle: tuple[str, ...]
    processes: tuple[int, ...] = field(default=())
    """Process ids with a compute context, in the root namespace."""

    @property
    def slowed(self) -> tuple[str, ...]:
        """Reasons for which its clocks are lower than they could be."""
        return tuple(reason for reason in self.throttle if reason not in HARMLESS)


def facts(deadline_s: float = DEADLINE_S) -> list[GpuFacts]:
    """All GPUs; empty without a driver. Raises `ServiceError` when NVML does not answer."""
    command = [sys.executable, "-m", "kernelgym.worker.gpu"]
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=deadline_s, check=False, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        raise ServiceError(
            f"NVML did not answer within {deadline_s:g} s", hint="nvidia-smi"
        ) from None
    if done.returncode != 0:
        text = done.stderr.decode(errors="replace").strip().splitlines()
        raise ServiceError(f"NVML failed: {text[-1] if text else done.returncode}")
    return [parse(item) for item in json.loads(done.stdout)]


def parse(item: dict[str, Any]) -> GpuFacts:
    """One GPU from the child's JSON."""
    item = {**item, "throttle": tuple(item["throttle"]), "processes": tuple(item["processes"])}
    return GpuFacts(**item)


def environment(index: int) -> dict[str, str]:
    """Variables of a process that uses GPU ``index``, and sees no other."""
    return {
        "CUDA_VISIBLE_DEVICES": str(index),
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_DEVICE_MAX_CONNECTIONS": CONNECTIONS,
        "CUDA_MODULE_LOADING": "LAZY",
    }


def gate_path(index: int, directory: str | None = None) -> str:
    """Lock file of a GPU, the same for every host of this user on this machine."""
    root = os.path.join(directory or tempfile.gettempdir(), f"{GATE_DIRECTORY}-{os.getuid()}")
    os.makedirs(root, mode=0o700, exist_ok=True)
    status = os.lstat(root)  # a guest at level L0 may write to /tmp, and could plant a link
    if status.st_uid != os.getuid() or not stat.S_ISDIR(status.st_mode):
        raise ServiceError(f"{root} is not this user's directory", hint=f"rm {root}")
    return os.path.join(root, f"gpu{index}.lock")


def index_of(device: str) -> int:
    """1 for ``cuda:1``, 0 for ``cuda``."""
    return int(device.partition(":")[2] or 0)


# --- the child ------------------------------------------------------------------------------------


class _Memory(ctypes.Structure):
    _fields_ = (
        ("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)
    )  # fmt: skip


class _Process(ctypes.Structure):
    _fields_ = (
        ("pid", ctypes.c_uint), ("used", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint), ("compute_instance", ctypes.c_uint),
    )  # fmt: skip


class _Nvml:
    """The few questions, each with a fallback: old drivers do not know all of them."""

    def __init__(self, library: Any) -> None:
        self._library = library

    def count(self) -> int:
        value = ctypes.c_uint(0)
        self._library.nvmlDeviceGetCount_v2(ctypes.byref(value))
        return int(value.value)

    def driver(self) -> str:
        text = ctypes.create_string_buffer(96)
        self._library.nvmlSystemGetDriverVersion(text, 96)
        return text.value.decode(errors="replace")

    def describe(self, index: int) -> dict[str, Any]:
        handle = ctypes.c_void_p()
        self._library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle))
        memory = _Memory()
        self._library.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory))
        return {
            "index": index,
            "name": self._text("nvmlDeviceGetName", handle),
            "uuid": self._text("nvmlDeviceGetUUID", handle),
            "driver": self.driver(),
            "memory_bytes": int(memory.total),
            "used_bytes": int(memory.used),
            "sm_clock_mhz": self._clock(handle, _SM),
            "memory_clock_mhz": self._clock(handle, _MEMORY),
            "throttle": self._throttle(handle),
            "processes": self._processes(handle),
        }

    def _text(self, name: str, handle: Any) -> str:
        text = ctypes.create_string_buffer(96)
        getattr(self._library, name)(handle, text, 96)
        return text.value.decode(errors="replace")

    def _clock(self, handle: Any, kind: int) -> int:
        value = ctypes.c_uint(0)
        self._library.nvmlDeviceGetClockInfo(handle, kind, ctypes.byref(value))
        return int(value.value)

    def _throttle(self, handle: Any) -> list[str]:
        value = ctypes.c_ulonglong(0)
        self._library.nvmlDeviceGetCurrentClocksThrottleReasons(handle, ctypes.byref(value))
        return [name for bit, name in _THROTTLE.items() if value.value & bit]

    def _processes(self, handle: Any) -> list[int]:
        count = ctypes.c_uint(_MAX_PROCESSES)
        found = (_Process * _MAX_PROCESSES)()
        ask = self._library.nvmlDeviceGetComputeRunningProcesses_v3
        status = ask(handle, ctypes.byref(count), found)
        return [] if status else [int(found[i].pid) for i in range(count.value)]


def main() -> int:
    """Print what NVML says as JSON; an empty list without a driver."""
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        sys.stdout.write("[]")
        return 0
    status = library.nvmlInit_v2()
    if status:
        sys.stderr.write(f"nvmlInit returned {status}\n")
        return 1
    nvml = _Nvml(library)
    sys.stdout.write(json.dumps([nvml.describe(index) for index in range(nvml.count())]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
