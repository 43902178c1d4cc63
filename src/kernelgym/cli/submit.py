"""``kernelgym submit``: send candidates to a gym, and wait for the verdicts."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter
from pydantic import ValidationError

from kernelgym.api import Evaluation, EvaluationRequest
from kernelgym.cli import exit_codes
from kernelgym.cli.evaluation_lines import exit_code, line_of
from kernelgym.cli.options import Json
from kernelgym.cli.screen import print_report, working
from kernelgym.cli.service_options import Server, TokenFile, connect
from kernelgym.errors import UsageError
from kernelgym.report.text import report_of
from kernelgym.schema import Precision, Protocol, Submission, Task
from kernelgym.tasks.source import read_source
from kernelgym.tasks.task import find_task, task_from_file


def submit(
    candidates: Annotated[tuple[Path, ...], Parameter(consume_multiple=True, negative="")],
    /,
    *,
    reference: Path | None = None,
    task: str | None = None,
    root: Path | None = None,
    backend: str = "triton",
    protocol: Protocol = "standard",
    precision: Precision = "fp32",
    baseline: Literal["eager", "torch_compile"] = "eager",
    trials: int = 5,
    timeout: float = 120.0,
    memory: int = 8192,
    entry_point: str = "ModelNew",
    device: str = "any",
    priority: int = 5,
    deadline: float = 86_400.0,
    key: str = "",
    force: Annotated[bool, Parameter(negative="")] = False,
    wait: bool = True,
    server: Server = None,
    token_file: TokenFile = None,
    json: Json = False,
) -> int:
    """Judge candidates on one task in a gym.

    Exit codes: 0 all correct, 1 a candidate failed, 2 usage, 3 the gym or the reference failed.
    With --no-wait only the ids are printed; follow them with: kernelgym watch ID.

    Parameters
    ----------
    candidates
        Python files that define the candidates' class.
    reference
        File in KernelBench's format to judge against.
    task
        builtin/NAME, or level2/40 of a KernelBench checkout.
    root
        The KernelBench checkout; default $KERNELBENCH_DIR.
    backend
        Kernel language.
    protocol
        Tolerances and modes.
    precision
        Floating-point type of parameters and inputs.
    baseline
        What the speedup is measured against.
    trials
        Fresh inputs for the correctness check, in each mode.
    timeout
        Seconds that the candidate may take in all.
    memory
        MiB of host memory that the candidate may use.
    entry_point
        Name of the candidate's class.
    device
        any, cpu, gpu, or a class of GPU such as h200.
    priority
        0 to 9; 9 comes first among your own.
    deadline
        Seconds after which the answer is useless.
    key
        Idempotency key, for one candidate: the same key never evaluates twice.
    force
        Evaluate even if the same content was evaluated before.
    wait
        Wait for the verdicts.
    server
        Address of the gym.
    token_file
        File with a client's token.
    """
    if key and len(candidates) > 1:
        raise UsageError("--key is for one candidate", hint="kernelgym submit CAND.py --key KEY")
    problem = _task(reference, task, root)
    fields = {"backend": backend, "protocol": protocol, "precision": precision}
    fields |= {"baseline": baseline, "entry_point": entry_point}
    numbers = {"trials": trials, "timeout_s": timeout, "memory_mb": memory}
    options = {"device": device, "priority": priority, "deadline_s": deadline, "force": force}
    requests = []
    for candidate in candidates:
        source = read_source(candidate, "candidate")
        requests.append(_request(problem, source, key, {**fields, **numbers}, options))
    with connect(server, token_file) as gym:
        batch = gym.submit(requests)
        if not wait:
            print(json_module.dumps(batch.ids) if json else "\n".join(batch.ids))
            return exit_codes.OK
        with working(f"judging {len(requests)} candidate(s) on {problem.name} in the gym"):
            evaluations = gym.wait(batch)
    return _print([one for one in evaluations if one is not None], candidates, json=json)


def _task(reference: Path | None, task: str | None, root: Path | None) -> Task:
    if task is not None and reference is None:
        return find_task(task, root)
    if reference is not None and task is None:
        return task_from_file(reference)
    raise UsageError(
        "give exactly one of --reference and --task",
        hint="kernelgym submit CAND.py --task builtin/NAME; names: kernelgym tasks list",
    )


def _request(
    task: Task, source: str, key: str, fields: dict[str, object], options: dict[str, object]
) -> EvaluationRequest:
    try:
        submission = Submission.model_validate({"task": task, "source": source, **fields})
        return EvaluationRequest.model_validate({"submission": submission, "key": key, **options})
    except ValidationError as error:
        first = error.errors()[0]
        option = str(first["loc"][-1]).removesuffix("_s").removesuffix("_mb").replace("_", "-")
        message = f"--{option}: {first['msg'].lower()}, not {first['input']!r:.100}"
        raise UsageError(message, hint="kernelgym submit --help") from error


def _print(evaluations: list[Evaluation], candidates: tuple[Path, ...], *, json: bool) -> int:
    if json:
        listed = [one.model_dump(mode="json") for one in evaluations]
        print(json_module.dumps(listed[0] if len(listed) == 1 else listed, indent=2))
    elif len(evaluations) == 1 and evaluations[0].result is not None:
        print_report(report_of(evaluations[0].result))
    else:
        for path, one in zip(candidates, evaluations, strict=True):
            print(line_of(one, name=path.name))
    return max(exit_code(one) for one in evaluations)
