"""The HTTP calls, each built and read in one place, and the rule for repeating them.

A flow is a generator: it yields `Call` and `Pause`, is sent a `Reply` for each call, and returns
its value. It does no input or output, so one flow serves the blocking and the asyncio client, and
tests drive it by hand.
"""

from __future__ import annotations

import random
import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from kernelgym.api import (
    Accepted,
    BatchRequest,
    Cancelled,
    Evaluation,
    EvaluationRequest,
    Problem,
    QueueView,
    WorkerStatus,
)
from kernelgym.client.faults import GymRefused, GymUnavailable

T = TypeVar("T")
RETRIED = (408, 425, 429, 500, 502, 503, 504)
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 10.0
_WORKERS = TypeAdapter(list[WorkerStatus])


@dataclass(frozen=True)
class Call:
    """One HTTP request."""

    method: str
    path: str
    body: bytes | None = None
    params: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    extra_s: float = 0.0
    """How much longer than usual the answer may take."""


@dataclass(frozen=True)
class Pause:
    """Wait before the next call."""

    seconds: float


@dataclass(frozen=True)
class Reply:
    """What came back; status 0 when nothing did."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    fault: str = ""


Flow = Generator[Call | Pause, Reply | None, T]


def ask(call: Call, patience_s: float) -> Flow[Reply]:
    """Make a call until it is answered for good, or the gym was away for too long."""
    give_up = time.monotonic() + patience_s
    pause_s = _FIRST_PAUSE_S
    while True:
        reply = yield call
        assert reply is not None
        if 200 <= reply.status < 300:
            return reply
        if reply.status and reply.status not in RETRIED:
            raise GymRefused(problem_of(reply))
        wait_s = max(_retry_after(reply), random.uniform(pause_s / 2, pause_s))
        if time.monotonic() + wait_s > give_up:
            raise GymUnavailable(_why(reply), hint="kernelgym queue, or start one: kernelgym up")
        yield Pause(wait_s)
        pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)


def _why(reply: Reply) -> str:
    if not reply.status:
        return f"the gym does not answer: {reply.fault}"
    problem = problem_of(reply)
    return f"the gym answers {reply.status} {problem.code}: {problem.detail}"


def _retry_after(reply: Reply) -> float:
    try:
        return min(60.0, max(0.0, float(reply.headers.get("retry-after", "0"))))
    except ValueError:
        return 0.0


def problem_of(reply: Reply) -> Problem:
    """The problem in an answer, or one made up from its status."""
    try:
        return Problem.model_validate_json(reply.body)
    except ValidationError:
        text = reply.body[:200].decode("utf-8", "replace")
        code = "unauthorized" if reply.status == 401 else "http_error"
        return Problem(type="about:blank", title="", status=reply.status, code=code, detail=text)


def submit_call(requests: tuple[EvaluationRequest, ...], batch_key: str) -> Call:
    """Queue a batch."""
    body = BatchRequest.model_construct(items=requests).model_dump_json().encode()
    headers = {"Content-Type": "application/json", "Idempotency-Key": batch_key}
    return Call("POST", "/v1/evaluations", body, headers=headers, extra_s=30.0)


def results_call(batch_id: str, after: int, wait_s: float) -> Call:
    """Wait for news of a batch."""
    params = {"after": str(after), "wait": f"{wait_s:g}", "limit": "500"}
    return Call("GET", f"/v1/batches/{batch_id}/results", params=params, extra_s=wait_s)


def read_results(reply: Reply) -> list[Evaluation]:
    """The lines of an answer to `results_call`."""
    return [Evaluation.model_validate_json(line) for line in reply.body.splitlines() if line]


def get_flow(evaluation_id: str, patience_s: float) -> Flow[Evaluation]:
    """Read one evaluation."""
    reply = yield from ask(Call("GET", f"/v1/evaluations/{evaluation_id}"), patience_s)
    return Evaluation.model_validate_json(reply.body)


def cancel_flow(kind: str, name: str, patience_s: float) -> Flow[dict[str, str]]:
    """Cancel an evaluation or a batch (``kind``: ``evaluations``, ``batches``)."""
    reply = yield from ask(Call("DELETE", f"/v1/{kind}/{name}"), patience_s)
    return Cancelled.model_validate_json(reply.body).states


def queue_flow(patience_s: float) -> Flow[QueueView]:
    """Read the queue."""
    reply = yield from ask(Call("GET", "/v1/queue"), patience_s)
    return QueueView.model_validate_json(reply.body)


def workers_flow(patience_s: float) -> Flow[list[WorkerStatus]]:
    """Read the workers."""
    reply = yield from ask(Call("GET", "/v1/workers"), patience_s)
    return _WORKERS.validate_json(reply.body)


def read_accepted(reply: Reply) -> Accepted:
    """The answer to `submit_call`."""
    return Accepted.model_validate_json(reply.body)


def dump(model: BaseModel) -> bytes:
    """A request's body."""
    return model.model_dump_json().encode()
