"""Verdicts for the tests of prompts: kept ones of the examples, and made ones for a GPU."""

from pathlib import Path

from drkernel.prompts import feedback
from drkernel.types import Extraction, Generation, Turn
from kernelgym.schema import (
    EvalResult,
    Failure,
    Finding,
    KernelRecord,
    Outcome,
    Profile,
    Provenance,
    Timing,
    Trial,
)

FENCED = Extraction(code="class ModelNew: ...\n", how="fence")
RESULTS = {path.stem: path for path in sorted((Path(__file__).parent / "results").glob("*.json"))}


def kept(name: str) -> EvalResult:
    """A verdict of the judge on a file of ``examples/candidates``, on a CPU."""
    return EvalResult.model_validate_json(RESULTS[name].read_text())


def on_gpu(speedup: float = 1.42, *, spill: int = 0) -> EvalResult:
    """A correct candidate on an H200: one own kernel, one of cuBLAS, one of torch."""
    kernel_ms = 0.05
    kernels = (
        _kernel("sm90_xmma_gemm_f32f32_tf32f32", own=False, time_us=20.0, grid=(132, 1, 1)),
        _kernel("gelu_kernel", own=True, time_us=10.0, grid=(64, 1, 1), spill=spill),
        _kernel("elementwise_kernel", own=False, time_us=2.0, grid=(512, 1, 1), calls=2),
    )
    return EvalResult(
        task="builtin/mlp",
        outcome=Outcome.CORRECT,
        correct=True,
        speedup=speedup,
        speedup_interval=(speedup - 0.02, speedup + 0.02),
        reference_ms=kernel_ms * speedup,
        kernel_ms=kernel_ms,
        coverage=10 / 32,
        displaced=0.2,
        findings=(
            Finding(
                id="low_coverage",
                severity="warning",
                message="own kernels take 31.2% of the device time in eval mode",
                evidence="inside",
            ),
            Finding(id="equal_speed", severity="info", message="not said", evidence="outside"),
        ),
        trials=tuple(
            Trial(index=index, mode=mode, passed=True)
            for mode in ("eval", "train")
            for index in range(5)
        ),
        timings=(
            Timing(
                mode="eval",
                reference_ms=kernel_ms * speedup,
                kernel_ms=kernel_ms,
                speedup=speedup,
                speedup_low=speedup - 0.02,
                speedup_high=speedup + 0.02,
                pairs=40,
            ),
        ),
        profile=Profile(
            kernels=(*kernels, _kernel("gelu_kernel", own=True, time_us=9.0, mode="train")),
            total_us=32.0,
            generated_us=10.0,
            sentence="Custom kernel CUDA time: 10.00 us / Total time: 32.00 us, Coverage: 31.25%",
        ),
        provenance=Provenance(device="NVIDIA H200"),
    )


def _kernel(name, *, own, time_us, grid=None, calls=1, spill=0, mode="eval") -> KernelRecord:
    return KernelRecord(
        name=name,
        own=own,
        time_us=time_us,
        share=time_us / 32.0,
        grid=grid,
        block=(128, 1, 1),
        registers=32,
        calls=calls,
        spill_bytes=spill,
        mode=mode,
    )


def failed(outcome: Outcome, *, findings: tuple[Finding, ...] = (), **failure) -> EvalResult:
    """A failed candidate with the failure given."""
    return EvalResult(
        task="builtin/gelu",
        outcome=outcome,
        correct=False,
        failure=Failure(**failure),
        findings=findings,
    )


def turn(index: int, result: EvalResult | None, *, text: str = "", extraction=FENCED) -> Turn:
    """A turn with its feedback."""
    return Turn(
        index=index,
        messages_hash="",
        prompt=(),
        generation=Generation(
            text=text or f"attempt {index + 1}", finish="stop", completion_tokens=3
        ),
        extraction=extraction,
        result=result,
        status="evaluated" if result else "no_code",
        feedback=feedback(result, extraction),
    )
