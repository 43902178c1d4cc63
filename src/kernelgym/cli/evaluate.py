"""``kernelgym eval``: judge one candidate on one task, on this machine, without a server."""

from __future__ import annotations

import importlib.util
import shlex
import sys
from pathlib import Path

from kernelgym import backends
from kernelgym.cli import exit_codes
from kernelgym.cli.device import resolve_device
from kernelgym.cli.judging import JudgingOptions, TaskChoice
from kernelgym.cli.options import Json
from kernelgym.cli.screen import print_report, working
from kernelgym.errors import ServiceError
from kernelgym.report.text import report_of
from kernelgym.schema import EvalResult, JailLevel, Submission
from kernelgym.tasks.source import read_source

_NO_TASK = TaskChoice()
_DEFAULTS = JudgingOptions()


def evaluate(
    candidate: Path,
    /,
    *,
    task: TaskChoice = _NO_TASK,
    options: JudgingOptions = _DEFAULTS,
    device: str = "auto",
    jail: JailLevel = "L1",
    json: Json = False,
) -> int:
    """Judge one candidate on one task.

    Give exactly one of --reference and --task. Exit codes: 0 correct, 1 the candidate failed,
    2 usage, 3 the service, a GPU or the reference failed.

    Parameters
    ----------
    candidate
        Python file that defines the candidate's class.
    device
        auto, cpu (Triton's interpreter: no timing) or cuda:N.
    jail
        Confinement: L1 (namespaces), L0 (without them), none (code that you trust).
    """
    problem = task.load()
    source = read_source(candidate, "candidate")
    backends.get(options.backend)
    submission = options.submission(problem, source)
    where = resolve_device(device)
    _need_worker_packages()
    with working(f"judging {candidate} on {problem.name} ({where}, jail {jail})"):
        result = _evaluate(submission, where, jail)
    if json:
        print(result.model_dump_json(indent=2))
    else:
        print_report(report_of(result, _command(sys.argv)))
    return exit_codes.code_of(result)


def _need_worker_packages() -> None:
    missing = [name for name in ("torch", "triton") if importlib.util.find_spec(name) is None]
    if missing:
        raise ServiceError(
            f"{' and '.join(missing)} not installed: an evaluation on this machine needs them",
            hint="pip install 'drkernel[worker]'",
        )


def _evaluate(submission: Submission, device: str, jail: JailLevel) -> EvalResult:
    from kernelgym.worker.host import evaluate_sync

    return evaluate_sync(submission, device=device, jail_level=jail)


def _command(argv: list[str]) -> str:
    return shlex.join(["kernelgym", *argv[1:]])
