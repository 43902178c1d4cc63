"""Routes for workers: claim, keep, give back, leave."""

from __future__ import annotations

import re
import time
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from kernelgym.api import (
    NAME,
    ClaimAnswer,
    ClaimRequest,
    CompleteRequest,
    HeartbeatAnswer,
    HeartbeatRequest,
    Settlement,
    WorkAnswers,
)
from kernelgym.broker.protocol import Claimed, Completion, Held, Kind, State
from kernelgym.server.service import Service, ServiceDep, WorkerDep, pack, unpack
from kernelgym.server.typed_route import TypedRoute

router = APIRouter(prefix="/v1/workers", tags=["workers"], route_class=TypedRoute)
_RECHECK_S = 15.0

Name = Annotated[str, Path(max_length=128, pattern=NAME)]


@router.post("/{worker}/claim", response_model=ClaimAnswer)
async def claim(
    request: Request, service: ServiceDep, _: WorkerDep, worker: Name, body: ClaimRequest
) -> Response:
    """Lease up to ``limit`` evaluations; waits up to ``wait_s`` for the first one."""
    deadline = time.monotonic() + body.wait_s
    tasks = await _claim_now(service, worker, body)
    while not tasks and not service.draining:
        left = deadline - time.monotonic()
        if left <= 0:
            break
        rung = await service.work.wait(body.classes, min(left, _RECHECK_S))
        if await request.is_disconnected():
            if rung:
                for name in body.classes:
                    service.work.ring_one(name)
            break
        tasks = await _claim_now(service, worker, body)
    for task in tasks:
        service.metrics.waited.observe(task.waited_ms / 1000)
    listed = b",".join(_leased_json(task) for task in tasks)
    answer = b'{"tasks":[%s],"lease_s":%g}' % (listed, service.settings.lease_s)
    return Response(answer, media_type="application/json")


async def _claim_now(service: Service, worker: str, body: ClaimRequest) -> list[Claimed]:
    if service.draining:
        return []
    lease_ms = int(service.settings.lease_s * 1000)
    return await service.broker.claim(
        worker, body.request, body.classes, lease_ms=lease_ms, limit=body.limit
    )


def _leased_json(task: Claimed) -> bytes:
    """A `LeasedTask` as JSON, around the stored submission."""
    head = f'{{"id":"{task.id}","token":{task.token},"remaining_s":{task.remaining_ms / 1000},'
    return head.encode() + b'"submission":' + unpack(task.body) + b"}"


@router.post("/{worker}/heartbeat")
async def heartbeat(
    service: ServiceDep, _: WorkerDep, worker: Name, body: HeartbeatRequest
) -> HeartbeatAnswer:
    """Say that the worker lives, and extend its leases."""
    answers = await service.broker.heartbeat(
        worker,
        body.info.model_dump_json().encode(),
        [Held(one.id, one.token, State(one.stage)) for one in body.held],
        lease_ms=int(service.settings.lease_s * 1000),
        classes=[name for name in body.info.classes if re.fullmatch(NAME, name)],
    )
    words = tuple(answer.value for answer in answers)
    return HeartbeatAnswer(answers=words, lease_s=service.settings.lease_s)


@router.post("/{worker}/complete")
async def complete(
    service: ServiceDep, _: WorkerDep, worker: Name, body: CompleteRequest
) -> WorkAnswers:
    """Give evaluations back: with a verdict, after an infrastructure failure, or untouched."""
    answers = await service.broker.complete(_completion(item) for item in body.items)
    for item, answer in zip(body.items, answers, strict=True):
        service.metrics.answers.labels(item.kind, answer.value).inc()
        if item.result is not None and answer.value == "ok":
            service.metrics.verdict(item.result)
    return WorkAnswers(answers=tuple(answer.value for answer in answers))


def _completion(item: Settlement) -> Completion:
    result = item.result
    return Completion(
        id=item.id,
        token=item.token,
        kind=Kind(item.kind),
        outcome="" if result is None else result.outcome.value,
        result=b"" if result is None else pack(result.model_dump_json().encode()),
        detail=item.detail,
    )


@router.delete("/{worker}")
async def leave(
    service: ServiceDep,
    _: WorkerDep,
    worker: Name,
    lost: Annotated[bool, Query(description="It died: count its tasks' attempts")] = False,
) -> dict[str, list[str]]:
    """The worker is gone; everything it holds goes back to the queue at once."""
    return {"returned": await service.broker.evict(worker, lost=lost)}
