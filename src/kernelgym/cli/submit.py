"""``kernelgym submit``: send candidates to a gym, and wait for the verdicts."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from pydantic import ValidationError

from kernelgym.api import Evaluation, EvaluationRequest
from kernelgym.cli import exit_codes
from kernelgym.cli.evaluation_lines import exit_code, line_of
from kernelgym.cli.judging import JudgingOptions, TaskChoice, bad_option
from kernelgym.cli.options import Json
from kernelgym.cli.screen import print_report, working
from kernelgym.cli.service_options import Server, TokenFile, connect
from kernelgym.errors import UsageError
from kernelgym.report.text import report_of
from kernelgym.schema import Submission
from kernelgym.tasks.source import read_source

_NO_TASK = TaskChoice()
_DEFAULTS = JudgingOptions()


def submit(
    candidates: Annotated[tuple[Path, ...], Parameter(consume_multiple=True, negative="")],
    /,
    *,
    task: TaskChoice = _NO_TASK,
    options: JudgingOptions = _DEFAULTS,
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
    problem = task.load()
    submissions = [
        options.submission(problem, read_source(candidate, "candidate")) for candidate in candidates
    ]
    queueing = {"device": device, "priority": priority, "deadline_s": deadline, "force": force}
    requests = [_request(submission, key=key, **queueing) for submission in submissions]
    with connect(server, token_file) as gym:
        batch = gym.submit(requests)
        if not wait:
            print(json_module.dumps(batch.ids) if json else "\n".join(batch.ids))
            return exit_codes.OK
        with working(f"judging {len(requests)} candidate(s) on {problem.name} in the gym"):
            evaluations = gym.wait(batch)
    return _print([one for one in evaluations if one is not None], candidates, json=json)


def _request(submission: Submission, **fields: object) -> EvaluationRequest:
    try:
        return EvaluationRequest.model_validate({"submission": submission, **fields})
    except ValidationError as error:
        raise bad_option(error) from error


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
