"""Wire types: what goes into an evaluation and what comes out.

Everything here is frozen data. Requests (`Task`, `Submission`) forbid unknown fields; results
ignore them, so that an older reader understands a newer gym. Units are in the names. Importing this
module imports no torch.
"""

from __future__ import annotations

import hashlib
from enum import StrEnum
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

SCHEMA_VERSION = 1
"""Raised when a field changes its meaning; adding a field does not raise it."""

EVALUATOR_VERSION = "0.7"
"""Raised when the same submission could get another verdict or number than before."""

MAX_SOURCE_BYTES = 1_000_000
"""Longest source, of a reference or a candidate, that is accepted."""

Protocol = Literal["standard", "kernelbench", "strict"]
Precision = Literal["fp32", "fp16", "bf16"]
Mode = Literal["eval", "train"]
JailLevel = Literal["L1", "L0", "none"]
Evidence = Literal["outside", "inside", "claimed", "census", "static"]
"""How a field is known. ``outside``: measured beyond the candidate's reach. ``inside``: recorded
in the candidate's process by code loaded before it and cross-checked from outside. ``claimed``:
recorded there with nothing to confirm it. ``census``: operators seen by the dispatcher in the
candidate's process. ``static``: read off the source."""


class _Request(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class _Result(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True)


class Outcome(StrEnum):
    """How an evaluation ended. Only ``correct`` has C = 1; ``infrastructure`` has no reward."""

    CORRECT = "correct"
    MISMATCH = "mismatch"
    COMPILE_ERROR = "compile_error"
    RUNTIME_ERROR = "runtime_error"
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out_of_memory"
    CRASH = "crash"
    HACK = "hack"
    INFRASTRUCTURE = "infrastructure"


class ExistingKernel(_Request):
    """A kernel that is there already: to start from, or to beat."""

    source: str = Field(max_length=MAX_SOURCE_BYTES)
    """Source of a candidate for the task."""
    backend: str = "triton"
    """Its kernel language."""
    entry_point: str = "ModelNew"
    """Name of its class."""


class Task(_Request):
    """A PyTorch reference and how to make its inputs: the problem a candidate must solve."""

    name: str = Field(min_length=1, max_length=200)
    """Name for people, e.g. ``builtin/softmax`` or ``level2/40``."""
    reference: str = Field(max_length=MAX_SOURCE_BYTES)
    """Source of a module in KernelBench's format: ``Model``, ``get_inputs`` and, optionally,
    ``get_init_inputs``."""
    entry_point: str = "Model"
    """Name of the reference's class in ``reference``."""
    origin: str = ""
    """Where the task came from: a suite, a data set, a path."""
    labels: dict[str, str] = Field(default_factory=dict)
    """Free labels: level, category, difficulty."""
    kernel: ExistingKernel | None = None
    """A seed: to start from, and the baseline that `kernelgym.toolkits.beat` measures against. It
    decides no verdict."""

    @property
    def content_hash(self) -> str:
        """SHA-256 over what decides the answer: reference source and entry point."""
        return hashlib.sha256(f"{self.entry_point}\0{self.reference}".encode()).hexdigest()


class Submission(_Request):
    """One candidate for one task, and how it is to be judged."""

    task: Task
    """The problem."""
    source: str = Field(max_length=MAX_SOURCE_BYTES)
    """Source of the candidate: a Python module that defines ``entry_point``."""
    backend: str = "triton"
    """Kernel language: ``triton``, ``cuda``, ``torch``, or the name of an installed backend."""
    entry_point: str = "ModelNew"
    """Name of the candidate's class."""
    protocol: Protocol = "standard"
    """Tolerances and modes, see ``docs/tour.md``; ``kernelbench`` only to compare with published
    numbers."""
    precision: Precision = "fp32"
    """Floating-point type of parameters and inputs, on both sides."""
    trials: int = Field(default=5, ge=1, le=100)
    """Fresh inputs for the correctness check, for each mode that is checked."""
    baseline: Literal["eager", "torch_compile"] = "eager"
    """What the speedup is measured against."""
    targets: tuple[int, ...] = (90,)
    """Compute capabilities (80 = sm_80) to cross-compile for when no GPU is used."""
    timeout_s: float = Field(default=120.0, gt=0, le=3600)
    """Wall time that the candidate's stages may take together, in seconds."""
    memory_mb: int = Field(default=8192, ge=256)
    """Host memory that the candidate's process tree may use, in MiB."""

    @property
    def source_hash(self) -> str:
        """SHA-256 of the candidate's source."""
        return hashlib.sha256(self.source.encode()).hexdigest()


class Failure(_Result):
    """Why an evaluation did not end ``correct``, in words that a person or a model can act on."""

    stage: str
    """Stage that failed: ``parse``, ``load``, ``build``, ``forward``, ``compare``, ..."""
    code: str
    """Stable identifier, e.g. ``value_mismatch``, ``reference_forward_error``, ``deadline``."""
    type: str = ""
    """Class of the exception, if there was one."""
    message: str = ""
    """One paragraph: what went wrong."""
    traceback: str = ""
    """Traceback cut to a byte budget, paths of the host removed."""
    line: int | None = None
    """1-based line of the candidate's source that the failure points to."""
    excerpt: str = ""
    """Source around ``line``."""


class Finding(_Result):
    """Something the judge saw about a candidate; advice or evidence, depending on ``severity``."""

    id: str
    """Stable identifier, e.g. ``no_own_kernel``, ``low_coverage``, ``mode_branch``."""
    severity: Literal["info", "warning", "hack"]
    """``hack`` decides the outcome; the others never do."""
    message: str
    """One sentence a person understands, with what was seen."""
    evidence: Evidence
    """How it is known."""
    line: int | None = None
    """1-based line of the candidate's source that gave it away, where there is one."""
    excerpt: str = ""
    """That line."""
    confidence: Literal["certain", "high", "medium", "low", ""] = ""
    """How far it can be relied on, see ``kernelgym hacks ID``; empty in older results."""


class Trial(_Result):
    """One call on fresh inputs, compared with the reference."""

    index: int
    """0-based number within its mode."""
    mode: Mode
    """``module.eval()`` or ``module.train()``."""
    passed: bool
    """Outputs within tolerance, structure and types exact, inputs as the reference leaves them."""
    status: str = "ok"
    """``ok`` or the code of the first difference: ``value_mismatch``, ``shape_mismatch``, ..."""
    max_abs_error: float | None = None
    """Largest |candidate - reference| over all outputs."""
    max_rel_error: float | None = None
    """Largest |candidate - reference| / rms(reference) over all outputs."""
    worst_ratio: float | None = None
    """Largest |error| / allowed error; at most 1 when the trial passed."""
    error_quantiles: tuple[float, float, float] | None = None
    """|error| / allowed error at 50, 90 and 99 percent of the elements of the worst output."""
    detail: str = ""
    """Where and by how much it differs, when it does."""


class Timing(_Result):
    """Times of one mode, from repeated, checked calls with a cold L2 cache."""

    mode: Mode
    """Mode of the module while it was timed."""
    reference_ms: float
    """Median time of the reference, in milliseconds."""
    kernel_ms: float
    """Median time of the candidate, in milliseconds."""
    speedup: float
    """``reference_ms / kernel_ms``, not capped."""
    speedup_low: float
    """Lower end of the 95% interval of the speedup."""
    speedup_high: float
    """Upper end of the 95% interval of the speedup."""
    pairs: int
    """Number of timed calls on each side."""
    reference_samples_ms: tuple[float, ...] = ()
    """Raw samples of the reference, in milliseconds."""
    kernel_samples_ms: tuple[float, ...] = ()
    """Raw samples of the candidate, in milliseconds."""
    clock: str = ""
    """Clock of record: ``marks`` (judge's, outside), ``events`` (inside, confirmed by marks), or
    ``cpu`` (claimed, bounded by the judge's clock)."""
    launch_share: float | None = None
    """Part of a call's time that launching takes when nothing was queued beforehand; the times
    above are without it."""
    lead_excess_us: float | None = None
    """Median time from flag to start mark beyond that of an honest harness, in microseconds a
    bracket; charged to the candidate where it is more than jitter."""
    tail_excess_us: float | None = None
    """Median time from end mark to copied outputs beyond the reference's, alike."""
    baseline: Literal["eager", "torch_compile"] = "eager"
    """What the reference ran as."""


class KernelRecord(_Result):
    """One kernel of the candidate: as launched, compiled or profiled."""

    name: str
    """Name of the kernel."""
    own: bool
    """Compiled from the candidate's own source (by content hash, never by name)."""
    effect: Literal["idle", "copy", ""] = ""
    """Why an own kernel earns no share: nothing changes without it, or it only copies."""
    calls: int = 1
    """Launches in one forward call."""
    time_us: float | None = None
    """Device time of all its launches in one forward call, in microseconds."""
    share: float | None = None
    """Share of the device time of all kernels, 0 to 1."""
    grid: tuple[int, int, int] | None = None
    """Blocks in x, y, z."""
    block: tuple[int, int, int] | None = None
    """Threads in x, y, z."""
    registers: int | None = None
    """Registers a thread."""
    shared_bytes: int | None = None
    """Shared memory a block, in bytes."""
    spill_bytes: int | None = None
    """Bytes of registers spilled to local memory a thread."""
    target: str = ""
    """Compute capability it was compiled for, e.g. ``sm_90``."""
    mode: Mode | None = None
    """Mode of the module in which it was launched."""


class Profile(_Result):
    """Where the device time of one forward call went."""

    kernels: tuple[KernelRecord, ...] = ()
    """One record a kernel, longest first. Without a GPU: launches in the interpreter, no times."""
    compiled: tuple[KernelRecord, ...] = ()
    """Cross-compiled kernels with registers, shared memory and spills (without a GPU)."""
    total_us: float | None = None
    """Device time of all kernels, copies and fills, overlaps split, in microseconds."""
    generated_us: float | None = None
    """Device time of the candidate's own kernels, in microseconds."""
    sentence: str = ""
    """The sentence that the paper puts into prompts."""
    min_bytes: int | None = None
    """Bytes that move when inputs and parameters are read once and outputs written once."""
    flops: int | None = None
    """Floating-point operations of the reference's matrix products, convolutions and attention;
    others are not counted."""
    bandwidth_share: float | None = None
    """``min_bytes`` over the candidate's time, as a part of the GPU's memory bandwidth."""
    flops_per_s: float | None = None
    """``flops`` over the candidate's time."""
    operators: dict[str, int] = Field(default_factory=dict)
    """ATen operators seen in one forward call and how often (census)."""


class Provenance(_Result):
    """Everything needed to understand, repeat or distrust a result."""

    evaluator_version: str = EVALUATOR_VERSION
    """Version of the judging rules."""
    source_hash: str = ""
    """SHA-256 of the candidate's source."""
    task_hash: str = ""
    """SHA-256 of the reference."""
    device: str = "cpu"
    """``cpu`` (Triton's interpreter) or the name of the GPU."""
    gpu_uuid: str | None = None
    """UUID of the GPU."""
    driver: str | None = None
    """Version of the NVIDIA driver."""
    versions: dict[str, str] = Field(default_factory=dict)
    """Python, torch, triton, kernelgym, Linux."""
    jail: JailLevel = "none"
    """Level of confinement that the candidate really had; ``none`` where none was started, too."""
    jail_missing: tuple[str, ...] = ()
    """Protections that this machine could not give."""
    protocol: Protocol = "standard"
    """Protocol of the comparison."""
    precision: Precision = "fp32"
    """Floating-point type of parameters and inputs."""
    flags: dict[str, str] = Field(default_factory=dict)
    """What moves numbers: threads, probes, kind and size of the noise, baseline, autotune cut."""
    seeds: dict[str, int] = Field(default_factory=dict)
    """Seeds, secret until the evaluation was over: ``init``, and one a trial."""
    evidence: dict[str, Evidence] = Field(default_factory=dict)
    """How each field of the result is known."""
    stage_seconds: dict[str, float] = Field(default_factory=dict)
    """Wall seconds of each stage; the stages sum to the whole within 5%."""
    wall_seconds: float = 0.0
    """Wall seconds from request to verdict."""
    gate_held_seconds: float | None = None
    """Seconds for which this evaluation kept the GPU from others, reference included; None on a
    CPU."""
    gate_shared_seconds: float | None = None
    """Seconds for which it ran calls that nobody times, beside those of others; None on a CPU."""
    started_at: str = ""
    """UTC time of the request, ISO 8601."""


class EvalResult(_Result):
    """The verdict on one candidate."""

    schema_version: int = SCHEMA_VERSION
    """Version of this format."""
    task: str
    """Name of the task."""
    backend: str = "triton"
    """Kernel language."""
    outcome: Outcome
    """How the evaluation ended."""
    correct: bool
    """True exactly when ``outcome`` is ``correct``."""
    speedup: float | None = None
    """Reference time / candidate time in the worse mode, not capped; None when not measured."""
    speedup_interval: tuple[float, float] | None = None
    """95% interval of ``speedup``."""
    reference_ms: float | None = None
    """Median time of the reference in the mode of record, in milliseconds."""
    kernel_ms: float | None = None
    """Median time of the candidate in the mode of record, in milliseconds."""
    coverage: float | None = None
    """Device time of own kernels / device time of all kernels; None when not profiled, never 0."""
    displaced: float | None = None
    """Share of the reference's device time that library kernels no longer run."""
    findings: tuple[Finding, ...] = ()
    """What the judge saw, most severe first."""
    failure: Failure | None = None
    """Why it did not end ``correct``."""
    trials: tuple[Trial, ...] = ()
    """Every comparison that was made."""
    timings: tuple[Timing, ...] = ()
    """Times, one entry a mode."""
    profile: Profile | None = None
    """Kernels and where the time went; None when nothing was recorded."""
    not_measured: dict[str, str] = Field(default_factory=dict)
    """For each of speedup, coverage, displaced, profile that is None: why."""
    provenance: Provenance = Field(default_factory=Provenance)
    """Versions, hardware, seeds, hashes, confinement, evidence, stage seconds."""

    @model_validator(mode="after")
    def _outcome_and_fields_agree(self) -> Self:
        if self.correct != (self.outcome is Outcome.CORRECT):
            raise ValueError("correct must be True exactly when outcome is 'correct'")
        if self.correct and self.failure is not None:
            raise ValueError("a correct result carries no failure")
        if not self.correct and self.failure is None:
            raise ValueError(f"outcome {self.outcome.value!r} needs a failure that says why")
        if not self.correct and self.speedup is not None:
            raise ValueError("only a correct candidate has a speedup")
        is_hack = any(finding.severity == "hack" for finding in self.findings)
        if (self.outcome is Outcome.HACK) != is_hack:
            raise ValueError("outcome 'hack' needs a finding of severity 'hack', and only it may")
        return self
