"""What a prompt and a hint may say about a GPU: figures from its maker's data sheet.

Dense tensor-core rates, without sparsity. A GPU that is not listed is named and no figure is given.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Gpu:
    """One model of GPU."""

    name: str
    """Name for people."""
    multiprocessors: int | None = None
    """Streaming multiprocessors."""
    memory_gb_s: int | None = None
    """Memory bandwidth, GB/s."""
    fp32_tflops: int | None = None
    """FP32 rate without tensor cores, TFLOP/s."""
    bf16_tflops: int | None = None
    """BF16 and FP16 rate of the tensor cores, TFLOP/s."""
    shared_kb: int | None = None
    """Shared memory a block may use, KiB."""
    l2_mb: int | None = None
    """L2 cache, MB."""


_KNOWN = (
    Gpu("NVIDIA B200", 148, 8000, 75, 2250, 227, 126),
    Gpu("NVIDIA H200", 132, 4800, 67, 989, 227, 50),
    Gpu("NVIDIA H100", 132, 3350, 67, 989, 227, 50),
    Gpu("NVIDIA A100", 108, 2039, 19, 312, 163, 40),
    Gpu("NVIDIA L40S", 142, 864, 91, 362, 99, 96),
    Gpu("NVIDIA GeForce RTX 4090", 128, 1008, 82, 165, 99, 72),
)


def find_gpu(name: str | None) -> Gpu | None:
    """The GPU that a name means: what CUDA reports, or a short name; None for no GPU.

    >>> find_gpu("NVIDIA H200").memory_gb_s, find_gpu("h100").multiprocessors
    (4800, 132)
    >>> find_gpu("Some GPU").memory_gb_s, find_gpu("cpu")
    (None, None)
    """
    if not name or name == "cpu":
        return None
    words = set(re.split(r"[^a-z0-9]+", name.lower()))
    for gpu in _KNOWN:
        if gpu.name.lower().rpartition(" ")[2] in words:
            return gpu
    return Gpu(name)
