"""``kernelgym eval``: judge one candidate on one task, on this machine, without a server."""

from __future__ import annotations

import importlib.util
import shlex
import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter
from pydantic import ValidationError

from kernelgym import backends
from kernelgym.cli import exit_codes
from kernelgym.cli.device import resolve_device
from kernelgym.cli.options import Json
from kernelgym.cli.screen import print_report, working
from kernelgym.errors import ServiceError, UsageError
from kernelgym.report.text import report_of
from kernelgym.schema import EvalResult, JailLevel, Precision, Protocol, Submission, Task
from kernelgym.tasks.source import read_source
from kernelgym.tasks.task import find_task, task_from_file


def evaluate(
    candidate: Path,
    /,
    *,
    reference: Path | None = None,
    task: str | None = None,
    root: Path | None = None,
    backend: str = "triton",
    device: str = "auto",
    protocol: Protocol = "standard",
    precision: Precision = "fp32",
    baseline: Literal["eager", "torch_compile"] = "eager",
    jail: JailLevel = "L1",
    trials: Annotated[int, Parameter(name=("--trials",))] = 5,
    timeout: float = 120.0,
    memory: int = 8192,
    entry_point: str = "ModelNew",
    target: Annotated[tuple[int, ...], Parameter(consume_multiple=True, negative="")] = (90,),
    json: Json = False,
) -> int:
    """Judge one candidate on one task.

    Give exactly one of --reference and --task. Exit codes: 0 correct, 1 the candidate failed,
    2 usage, 3 the service, a GPU or the reference failed.

    Parameters
    ----------
    candidate
        Python file that defines the candidate's class.
    reference
        File in KernelBench's format (Model, get_inputs, get_init_inputs) to judge against.
    task
        builtin/NAME (see: kernelgym tasks list), or level2/40 of a KernelBench checkout.
    root
        The KernelBench checkout; default $KERNELBENCH_DIR.
    backend
        Kernel language: triton, torch (no own kernel needed; for calibration), or an installed one.
    device
        auto, cpu (Triton's interpreter: no timing) or cuda:N.
    protocol
        Tolerances and modes; kernelbench only to compare with published numbers.
    precision
        Floating-point type of parameters and inputs.
    baseline
        What the speedup is measured against.
    jail
        Confinement: L1 (namespaces), L0 (without them), none (code that you trust).
    trials
        Fresh inputs for the correctness check, in each mode.
    timeout
        Seconds that the candidate may take in all.
    memory
        MiB of host memory that the candidate may use.
    entry_point
        Name of the candidate's class.
    target
        Compute capabilities to cross-compile for without a GPU, e.g. 80 90 100.
    """
    problem = _task(reference, task, root)
    source = read_source(candidate, "candidate")
    backends.get(backend)
    submission = _submission(
        task=problem,
        source=source,
        backend=backend,
        protocol=protocol,
        precision=precision,
        baseline=baseline,
        trials=trials,
        timeout_s=timeout,
        memory_mb=memory,
        entry_point=entry_point,
        targets=target,
    )
    where = resolve_device(device)
    _need_worker_packages()
    with working(f"judging {candidate} on {problem.name} ({where}, jail {jail})"):
        result = _evaluate(submission, where, jail)
    if json:
        print(result.model_dump_json(indent=2))
    else:
        print_report(report_of(result, _command(sys.argv)))
    return exit_codes.code_of(result)


def _task(reference: Path | None, task: str | None, root: Path | None) -> Task:
    if (reference is None) == (task is None):
        raise UsageError(
            "give exactly one of --reference and --task",
            hint="kernelgym eval CAND.py --task builtin/NAME; names: kernelgym tasks list",
        )
    if task is not None:
        return find_task(task, root)
    assert reference is not None
    return task_from_file(reference)


def _need_worker_packages() -> None:
    missing = [name for name in ("torch", "triton") if importlib.util.find_spec(name) is None]
    if missing:
        raise ServiceError(
            f"{' and '.join(missing)} not installed: an evaluation on this machine needs them",
            hint="pip install 'drkernel[worker]'",
        )


def _submission(**fields: object) -> Submission:
    try:
        return Submission.model_validate(fields)
    except ValidationError as error:
        first = error.errors()[0]
        option = str(first["loc"][0]).removesuffix("_s").removesuffix("_mb").replace("_", "-")
        message = f"--{option}: {first['msg'].lower()}, not {first['input']!r:.100}"
        raise UsageError(message, hint="kernelgym eval --help") from error


def _evaluate(submission: Submission, device: str, jail: JailLevel) -> EvalResult:
    from kernelgym.worker.host import evaluate_sync

    return evaluate_sync(submission, device=device, jail_level=jail)


def _command(argv: list[str]) -> str:
    return shlex.join(["kernelgym", *argv[1:]])
