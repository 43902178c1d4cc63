"""What runs in the doctor's children: ``python -m kernelgym.cli.probe NAME`` prints one JSON line.

A child may hang in a driver, crash or be slow to import; its parent holds the deadline.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from collections.abc import Callable
from typing import Any


def toolchain() -> dict[str, Any]:
    """Versions of torch and Triton."""
    import torch
    import triton

    return {
        "torch": torch.__version__,
        "torch_cuda": torch.version.cuda,
        "triton": triton.__version__,
    }


def interpreter() -> dict[str, Any]:
    """One kernel in Triton's interpreter, checked."""
    os.environ["TRITON_INTERPRET"] = "1"
    import torch

    from kernelgym.cli.probe_kernel import double_kernel

    x = torch.arange(100, dtype=torch.float32)
    out = torch.empty_like(x)
    double_kernel[(2,)](x, out, 100, block=64)
    return {"right": bool(torch.equal(out, x + x))}


def cross_compile() -> dict[str, Any]:
    """The same kernel compiled for GPUs that need not be here."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from kernelgym.cli.probe_kernel import double_kernel

    signature = {"source": "*fp32", "target": "*fp32", "n": "i32", "block": "constexpr"}
    sizes = {}
    for capability in (80, 90, 100):
        kernel = triton.compile(
            ASTSource(double_kernel, signature, {"block": 64}),
            target=GPUTarget("cuda", capability, 32),
        )
        sizes[f"sm_{capability}"] = len(kernel.asm["cubin"])
    return {"cubin_bytes": sizes}


class _Memory(ctypes.Structure):
    _fields_ = (
        ("total", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    )


def gpu() -> dict[str, Any]:
    """GPUs and driver by NVML, which can hang where a driver does."""
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return {"driver": None, "gpus": []}
    status = nvml.nvmlInit_v2()
    if status:
        return {"driver": None, "gpus": [], "error": f"nvmlInit returned {status}"}
    text = ctypes.create_string_buffer(128)
    nvml.nvmlSystemGetDriverVersion(text, 128)
    driver = text.value.decode()
    count = ctypes.c_uint()
    nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
    return {"driver": driver, "gpus": [_one_gpu(nvml, index) for index in range(count.value)]}


def _one_gpu(nvml: ctypes.CDLL, index: int) -> dict[str, Any]:
    handle, text, memory = ctypes.c_void_p(), ctypes.create_string_buffer(128), _Memory()
    nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle))
    nvml.nvmlDeviceGetName(handle, text, 128)
    nvml.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory))
    clock, most, persistence = ctypes.c_uint(), ctypes.c_uint(), ctypes.c_uint()
    streaming_multiprocessor = 1
    nvml.nvmlDeviceGetClockInfo(handle, streaming_multiprocessor, ctypes.byref(clock))
    nvml.nvmlDeviceGetMaxClockInfo(handle, streaming_multiprocessor, ctypes.byref(most))
    nvml.nvmlDeviceGetPersistenceMode(handle, ctypes.byref(persistence))
    return {
        "index": index,
        "name": text.value.decode(),
        "memory_gib": round(memory.total / (1 << 30), 1),
        "free_gib": round(memory.free / (1 << 30), 1),
        "clock_mhz": clock.value,
        "max_clock_mhz": most.value,
        "persistence": bool(persistence.value),
    }


PROBES: dict[str, Callable[[], dict[str, Any]]] = {
    "toolchain": toolchain,
    "interpreter": interpreter,
    "cross_compile": cross_compile,
    "gpu": gpu,
}

if __name__ == "__main__":
    print(json.dumps(PROBES[sys.argv[1]]()))
