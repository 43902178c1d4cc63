"""Hints towards a faster kernel, from what was measured: rooflines, launches, resources.

Every hint follows from numbers in the result and the GPU's data sheet, and says which. Where a
result does not say what the task must move and compute, the roofline hint gives what the GPU could
have done in the time, for the reader to compare.
"""

from __future__ import annotations

from drkernel.prompts.gpus import Gpu, find_gpu
from drkernel.prompts.quoting import harmless
from kernelgym.schema import EvalResult, KernelRecord

_SHORT_US = 5.0
"""Kernels below this are mostly launch overhead."""
_HOST_SHARE = 0.3
_MANY_REGISTERS = 128


def hints(result: EvalResult) -> str:
    """One line a hint, most general first; empty when nothing stands out."""
    gpu = find_gpu(result.provenance.device)
    own = [k for k in _kernels(result) if k.own]
    lines = [
        _roofline(result, gpu),
        _host_overhead(result),
        _short_kernels(result),
        *(_small_grid(kernel, gpu) for kernel in own[:3]),
        *(_resources(kernel) for kernel in (own or _compiled(result))[:3]),
    ]
    kept = [f"- {line}" for line in dict.fromkeys(lines) if line]
    return "Hints:\n" + "\n".join(kept) if kept else ""


def _kernels(result: EvalResult) -> list[KernelRecord]:
    records = result.profile.kernels if result.profile else ()
    return [k for k in records if k.time_us is not None and k.mode == records[0].mode]


def _compiled(result: EvalResult) -> list[KernelRecord]:
    return list(result.profile.compiled) if result.profile else []


def _roofline(result: EvalResult, gpu: Gpu | None) -> str:
    if gpu is None or gpu.memory_gb_s is None or result.kernel_ms is None:
        return ""
    if result.profile is not None and result.profile.min_bytes:
        return _against_the_roof(result, gpu)
    # GB/s * ms = MB, TFLOP/s * ms = GFLOP
    rates = (gpu.memory_gb_s, gpu.fp32_tflops or 0, gpu.bf16_tflops or 0)
    megabytes, fp32, bf16 = (_rounded(rate * result.kernel_ms) for rate in rates)
    return (
        f"in the {1000 * result.kernel_ms:.3g} us that yours takes, this GPU can move {megabytes} "
        f"MB to or from memory, do {fp32} GFLOP in fp32 and {bf16} GFLOP on bf16 tensor cores; "
        "a task that needs much less than all three leaves room."
    )


def _against_the_roof(result: EvalResult, gpu: Gpu) -> str:
    """What the task must move and compute, and which of the two bounds it."""
    assert result.profile is not None
    assert result.kernel_ms is not None
    assert gpu.memory_gb_s is not None
    megabytes = (result.profile.min_bytes or 0) / 1e6
    move_us = 1000 * megabytes / gpu.memory_gb_s
    text = (
        f"reading the inputs and writing the outputs once moves {_rounded(megabytes)} MB, "
        f"{_rounded(move_us)} us at this GPU's full bandwidth; yours takes "
        f"{_rounded(1000 * result.kernel_ms)} us"
    )
    gigaflop, rate = (result.profile.flops or 0) / 1e9, gpu.bf16_tflops or gpu.fp32_tflops
    if not gigaflop or not rate:
        return text + "."
    compute_us = 1000 * gigaflop / rate
    bound = "arithmetic" if compute_us > move_us else "memory"
    return (
        f"{text}. Its matrix products, convolutions and attention are {_rounded(gigaflop)} GFLOP, "
        f"at least {_rounded(compute_us)} us on tensor cores: {bound} bounds it."
    )


def _rounded(value: float) -> str:
    return f"{float(f'{value:.2g}'):,.12g}"


def _host_overhead(result: EvalResult) -> str:
    total_us = result.profile.total_us if result.profile else None
    if total_us is None or result.kernel_ms is None:
        return ""
    idle_us = 1000 * result.kernel_ms - total_us
    if idle_us < _HOST_SHARE * 1000 * result.kernel_ms:
        return ""
    return (
        f"kernels run for {total_us:.1f} of {1000 * result.kernel_ms:.1f} us: the GPU waits for "
        "Python and launches; fewer launches and less work in `forward` help."
    )


def _short_kernels(result: EvalResult) -> str:
    launches = [k for k in _kernels(result) if (k.time_us or 0.0) / max(1, k.calls) < _SHORT_US]
    total = sum(kernel.calls for kernel in launches)
    if total < 2:
        return ""
    return f"{total} launches last less than {_SHORT_US:g} us each: fusing them saves launches."


def _small_grid(kernel: KernelRecord, gpu: Gpu | None) -> str:
    if gpu is None or gpu.multiprocessors is None or kernel.grid is None:
        return ""
    x, y, z = kernel.grid
    blocks = x * y * z
    if blocks >= gpu.multiprocessors:
        return ""
    return (
        f"`{harmless(kernel.name)[:60]}` launches {blocks} blocks on {gpu.multiprocessors} "
        "multiprocessors: most of the GPU idles; split the work further."
    )


def _resources(kernel: KernelRecord) -> str:
    name = harmless(kernel.name)[:60]
    if kernel.spill_bytes:
        return (
            f"`{name}` spills {kernel.spill_bytes} bytes a thread to memory: smaller tiles or "
            "more warps a block avoid that."
        )
    if (kernel.registers or 0) > _MANY_REGISTERS:
        return (
            f"`{name}` uses {kernel.registers} registers a thread, which leaves few warps a "
            "multiprocessor."
        )
    return ""
