"""``kernelgym watch``: follow evaluations until they end."""

from __future__ import annotations

import time
from typing import Annotated

from cyclopts import Parameter

from kernelgym.api import Evaluation
from kernelgym.cli.evaluation_lines import exit_code, line_of
from kernelgym.cli.options import Json
from kernelgym.cli.service_options import Server, TokenFile, connect
from kernelgym.client import Gym, GymRefused
from kernelgym.errors import UsageError

_LOOK_EVERY_S = 0.5


def watch(
    ids: Annotated[tuple[str, ...], Parameter(consume_multiple=True, negative="")],
    /,
    *,
    cancel: Annotated[bool, Parameter(negative="")] = False,
    server: Server = None,
    token_file: TokenFile = None,
    json: Json = False,
) -> int:
    """Wait for evaluations to end and print each verdict; Ctrl-C leaves them running.

    Parameters
    ----------
    ids
        Ids that `kernelgym submit --no-wait` printed.
    cancel
        Cancel them instead.
    server
        Address of the gym.
    token_file
        File with a client's token.
    """
    worst = 0
    with connect(server, token_file) as gym:
        for one in ids:
            _find(gym, one)
            if cancel:
                gym.cancel(one)
            ended = _wait(gym, one)
            print(ended.model_dump_json(indent=2) if json else line_of(ended), flush=True)
            worst = max(worst, 0 if cancel else exit_code(ended))
    return worst


def _wait(gym: Gym, evaluation_id: str) -> Evaluation:
    while not (evaluation := _find(gym, evaluation_id)).final:
        time.sleep(_LOOK_EVERY_S)
    return evaluation


def _find(gym: Gym, evaluation_id: str) -> Evaluation:
    try:
        return gym.get(evaluation_id)
    except GymRefused as refusal:
        if refusal.problem.code != "not_found":
            raise
        raise UsageError(
            f"this gym has no evaluation {evaluation_id!r}, or its result has expired",
            hint="kernelgym submit ... --no-wait, which prints ids",
        ) from refusal
