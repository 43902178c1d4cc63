"""Options of every verb that has candidates judged: which task, and by which rules.

Field docstrings are the help texts.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter
from pydantic import ValidationError

from kernelgym.errors import UsageError
from kernelgym.schema import Precision, Protocol, Submission, Task
from kernelgym.tasks.task import find_task, task_from_file


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class TaskChoice:
    """Exactly one of two ways to name a task."""

    reference: Path | None = None
    """File in KernelBench's format (Model, get_inputs, get_init_inputs) to judge against."""
    task: str | None = None
    """builtin/NAME (see: kernelgym tasks list), or level2/40 of a KernelBench checkout."""
    root: Path | None = None
    """The KernelBench checkout; default $KERNELBENCH_DIR."""

    def load(self) -> Task:
        """The task; raises `UsageError` when there is none, or two were named."""
        if self.task is not None and self.reference is None:
            return find_task(self.task, self.root)
        if self.reference is not None and self.task is None:
            return task_from_file(self.reference)
        raise UsageError(
            "give exactly one of --reference and --task",
            hint="kernelgym eval CAND.py --task builtin/NAME; names: kernelgym tasks list",
        )


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class JudgingOptions:
    """How a candidate is to be judged."""

    backend: str = "triton"
    """Kernel language: triton, torch (asks for no own kernel; to calibrate), or one installed."""
    protocol: Protocol = "standard"
    """Tolerances and modes; kernelbench only to compare with published numbers."""
    precision: Precision = "fp32"
    """Floating-point type of parameters and inputs."""
    baseline: Literal["eager", "torch_compile"] = "eager"
    """What the speedup is measured against."""
    trials: int = 5
    """Fresh inputs for the correctness check, in each mode."""
    timeout: float = 120.0
    """Seconds that the candidate may take in all."""
    memory: int = 8192
    """MiB of host memory that the candidate may use."""
    entry_point: str = "ModelNew"
    """Name of the candidate's class."""
    target: Annotated[tuple[int, ...], Parameter(consume_multiple=True, negative="")] = (90,)
    """Compute capabilities to cross-compile for without a GPU, e.g. 80 90 100."""

    def fields(self) -> dict[str, object]:
        """These options as fields of `Submission`."""
        return {
            "backend": self.backend,
            "protocol": self.protocol,
            "precision": self.precision,
            "baseline": self.baseline,
            "trials": self.trials,
            "timeout_s": self.timeout,
            "memory_mb": self.memory,
            "entry_point": self.entry_point,
            "targets": self.target,
        }

    def submission(self, task: Task, source: str) -> Submission:
        """The request; raises `UsageError` that names the option at fault."""
        try:
            return Submission.model_validate({"task": task, "source": source, **self.fields()})
        except ValidationError as error:
            raise bad_option(error) from error


def bad_option(error: ValidationError) -> UsageError:
    """The first thing that is wrong, in terms of the command line."""
    first = error.errors()[0]
    field = str(first["loc"][0])
    option = (
        field.removesuffix("_s").removesuffix("_mb").replace("_", "-").replace("targets", "target")
    )
    message = f"--{option}: {first['msg'].lower()}, not {first['input']!r:.100}"
    return UsageError(message, hint="kernelgym eval --help")
