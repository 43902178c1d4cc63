"""Bodies of the frames between judge and candidate.

The first group is written by the judge. The second comes from the candidate's process: claims,
parsed strictly and cut to size, never a verdict.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from kernelgym.sandbox.pool import TensorLayout

Name = str


class _Body(BaseModel):
    # A NaN compares with nothing: as a claimed time it would pass every bound on it.
    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False
    )


# --- judge to candidate ---------------------------------------------------------------------------


class Setup(_Body):
    """First request: what the harness shall be. Carries state, input and output pool as fds."""

    backend: str
    """Name of the backend."""
    device: Literal["cpu", "cuda"]
    """Where tensors lie."""
    interpret: bool
    """Run Triton's interpreter (no GPU)."""
    census: bool
    """Count ATen operators in each call."""
    pool_bytes: tuple[int, int, int]
    """Sizes of state, input and output pool, in bytes."""


class Build(_Body):
    """Make the candidate's module; copy the reference's state where names and shapes match."""

    entry_point: str
    """Class to instantiate."""
    arguments: dict[str, Any]
    """Node of the positional arguments (a list); its tensors lie in the state pool."""
    argument_tensors: tuple[TensorLayout, ...]
    """Layouts of the tensors in ``arguments``."""
    seed: int
    """Seed of every RNG just before the constructor runs; the reference had the same."""
    state: dict[Name, TensorLayout]
    """Parameters and buffers of the reference by name, in the state pool."""
    precision: Literal["fp32", "fp16", "bf16"]
    """Floating-point dtype the module is converted to after construction."""


class Call(_Body):
    """One forward call."""

    mode: Literal["eval", "train"]
    """Mode of the module."""
    arguments: dict[str, Any]
    """Node of the positional arguments (a list); its tensors lie in the input pool."""
    tensors: tuple[TensorLayout, ...]
    """Layouts of the tensors in ``arguments``."""
    seed: int
    """Seed of every RNG just before the call."""
    output_offset: int
    """Where in the output pool the copies of the outputs start."""
    keep: bool = False
    """Keep the returned tensors alive until the next ``keep`` call, whose answer copies them a
    second time (`Output.earlier`): a candidate that hands out one buffer twice is seen by its
    first answer having changed."""


class Prepare(_Body):
    """How the next call is observed. Comes before every call, so that its coming says nothing, and
    the call itself carries no trace of it."""

    fill: int = Field(default=0xFF, ge=0, le=0xFF)
    """Byte that memory holds which the call allocates and nobody has written."""
    suppress: tuple[str, ...] = Field(default=(), max_length=64)
    """Own kernels that become no-ops, by digest in hex; ``*`` is all of them."""
    watch: bool = False
    """Look at what each own kernel does to the tensors that it is given."""


class LaunchSignature(_Body):
    """How a kernel was launched, enough to compile it for another target."""

    kernel: str = Field(max_length=200)
    """Name of the kernel function in the candidate's module."""
    signature: dict[str, str] = Field(max_length=200)
    """Argument name to Triton type, e.g. ``*fp32``, ``i32``, ``constexpr``."""
    constants: dict[str, Any] = Field(max_length=200)
    """Argument name to value for constexpr arguments (numbers, strings, None)."""
    options: dict[str, int] = Field(default_factory=dict, max_length=20)
    """``num_warps``, ``num_stages``, ``num_ctas``, ``maxnreg``."""
    aligned: tuple[str, ...] = Field(default=(), max_length=200)
    """Arguments known to be divisible by 16 (pointers by address, integers by value)."""
    line: int = 0
    """1-based line of the candidate's source where the kernel starts; tells namesakes apart."""


class Compile(_Body):
    """Cross-compile kernels of the loaded source (answered by a compiler process)."""

    launches: tuple[LaunchSignature, ...]
    """What to compile."""
    targets: tuple[int, ...]
    """Compute capabilities, 90 = sm_90."""


# --- candidate to judge: claims -------------------------------------------------------------------


class Output(_Body):
    """What a call returned. Tensors were copied, dense, into the output pool."""

    tree: dict[str, Any]
    """Node of the returned value, to be passed through `kernelgym.sandbox.tree.check`."""
    tensors: tuple[TensorLayout, ...] = Field(max_length=10_000)
    """Layouts of the copies in the output pool, in order; offset -1 where it did not fit."""
    aliases: tuple[str, ...] = Field(default=(), max_length=1000)
    """Outputs whose memory overlaps something else's, as ``<output> <kind> <which>``, e.g.
    ``0 input 1``, ``0 state linear.weight``, ``1 output 0``, ``0 earlier 0`` (of the last ``keep``
    call), see `kernelgym.sandbox.aliasing`."""
    earlier: tuple[TensorLayout, ...] = Field(default=(), max_length=10_000)
    """Answer to a ``keep`` call: what the ``keep`` call before it returned, copied again now, after
    the new outputs; in its order; offset -1 where it did not fit. Equal bytes, or it was
    overwritten."""
    devices: tuple[str, ...] = Field(default=(), max_length=10_000)
    """Device type of each returned tensor before it was copied."""
    threads: tuple[int, int] = (0, 0)
    """Threads of the process before the call and when it had returned; 0 where not counted."""
    children: tuple[int, int] = (0, 0)
    """Processes started by this one and not ended, before and after."""


class Failed(_Body):
    """An exception that a request raised in the candidate's process."""

    type: str = Field(max_length=200)
    """Qualified name of the exception's class."""
    message: str = Field(max_length=8_000)
    """Its text, cut."""
    traceback: str = Field(default="", max_length=16_000)
    """Formatted traceback, cut, frames of the harness left out."""
    line: int | None = None
    """Line of the candidate's file that was executing, or that a compiler complained about."""
    compiling: bool = False
    """Raised while a kernel was being compiled."""
    out_of_memory: bool = False
    """The exception says that memory ran out."""
    unsupported: bool = False
    """It asked for what only a GPU has (inline assembly, CUDA graphs): not the candidate's
    fault."""


class Claims(_Body):
    """Body of DONE."""

    notes: tuple[str, ...] = Field(default=(), max_length=100)
    """Sentences of the harness, e.g. that autotune was cut to one configuration."""
    launches: tuple[LaunchSignature, ...] = Field(default=(), max_length=1000)
    """Distinct launches since the start (REPORT only)."""
    copied_state: tuple[Name, ...] = Field(default=(), max_length=100_000)
    """Names of the reference's state that were copied (BUILD only)."""
    missing_state: tuple[Name, ...] = Field(default=(), max_length=100_000)
    """Names of the reference's state that the candidate does not have (BUILD only)."""
    switches: dict[str, str] = Field(default_factory=dict, max_length=50)
    """Switches of torch as they are now (SETUP and LOAD only), see `kernelgym.sandbox.pinning`."""
    compiled: tuple[dict[str, Any], ...] = Field(default=(), max_length=1000)
    """`Compiled` of each kernel and target, dumped (a compiler process only)."""


class Compiled(_Body):
    """What cross-compiling one launch for one target gave."""

    kind: Literal["ok", "error", "skipped"]
    """``error``: Triton refused the kernel. ``skipped``: we could not try; never held against
    it."""
    kernel: str = Field(max_length=200)
    """Name of the kernel function."""
    target: int
    """Compute capability, 90 = sm_90."""
    seconds: float = 0.0
    """Wall seconds it took."""
    num_warps: int | None = None
    """Warps a block."""
    registers: int | None = None
    """Registers a thread."""
    shared_bytes: int | None = None
    """Shared memory a block, in bytes."""
    spill_bytes: int | None = None
    """Bytes of local memory a thread: spilled registers and arrays that did not fit."""
    type: str = Field(default="", max_length=200)
    """Class of the error."""
    message: str = Field(default="", max_length=8_000)
    """Text of the error, or why it was skipped."""
    line: int | None = None
    """1-based line of the candidate's source that the error points to."""
    excerpt: str = Field(default="", max_length=2_000)
    """Source around ``line``."""
