"""Routes for clients: submit, read, wait, cancel."""

from __future__ import annotations

import asyncio
import hashlib
import time
import uuid
from typing import Annotated, Any

from fastapi import APIRouter, Body, Header, Path, Query, Request
from pydantic import Discriminator, Tag
from starlette.responses import Response

from kernelgym.api import (
    Accepted,
    BatchRequest,
    Cancelled,
    Evaluation,
    EvaluationRequest,
)
from kernelgym.broker.protocol import BatchPage, Item, TaskView
from kernelgym.server.auth import Principal
from kernelgym.server.presence import absences
from kernelgym.server.problems import ProblemError, not_found
from kernelgym.server.service import ClientDep, Service, ServiceDep, pack, unpack, visible
from kernelgym.server.typed_route import TypedRoute

router = APIRouter(prefix="/v1", tags=["evaluations"], route_class=TypedRoute)
NDJSON = "application/x-ndjson"
_COALESCE_S = 0.05
_COALESCE_EACH_S = 0.0005
"""While a batch has many to come, a pause puts more of them into one answer: half a millisecond for
each, 50 at most. The last ones are sent at once."""
_RECHECK_S = 2.0
"""Bells may be lost with a connection; look again after so long."""
_IN_THREAD_BYTES = 200_000

Id = Annotated[str, Path(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9]+$")]
Key = Annotated[
    str | None, Header(alias="Idempotency-Key", max_length=200, pattern=r"^[\x21-\x7e]+$")
]


def _shape(body: Any) -> str:
    is_batch = "items" in body if isinstance(body, dict) else isinstance(body, BatchRequest)
    return "batch" if is_batch else "one"


SubmitBody = Annotated[
    Annotated[EvaluationRequest, Tag("one")] | Annotated[BatchRequest, Tag("batch")],
    Discriminator(_shape),
    Body(),
]


@router.post("/evaluations", status_code=202, response_model=Accepted)
async def submit(
    service: ServiceDep, who: ClientDep, body: SubmitBody, idempotency_key: Key = None
) -> Response:
    """Queue one evaluation, or a batch: all or none of it."""
    service.accept()
    requests = body.items if isinstance(body, BatchRequest) else (body,)
    if len(requests) > service.settings.max_batch:
        raise ProblemError(413, "too_large", f"at most {service.settings.max_batch} items")
    accepted = await store(service, who, requests, idempotency_key)
    warnings = await absences(service, {request.device for request in requests})
    accepted = accepted.model_copy(update={"warnings": warnings})
    return Response(accepted.model_dump_json(), 202, media_type="application/json")


async def store(
    service: Service,
    who: Principal,
    requests: tuple[EvaluationRequest, ...],
    batch_key: str | None = None,
) -> Accepted:
    """Put requests into the queue."""
    size = sum(len(request.submission.source) for request in requests)
    if size > _IN_THREAD_BYTES:
        items = await asyncio.to_thread(lambda: [_item(request) for request in requests])
    else:
        items = [_item(request) for request in requests]
    batch = _batch_id(who.name, batch_key)
    whole = "".join(f"{item.key}\0{item.digest}\0" for item in items)
    digest = hashlib.sha256(whole.encode()).hexdigest()
    ids, repeated = await service.broker.submit(who.name, batch, digest, items)
    return Accepted(batch=batch, ids=tuple(ids), repeated=repeated)


def _item(request: EvaluationRequest) -> Item:
    content = request.content_hash()
    return Item(
        id=uuid.uuid4().hex,
        body=pack(request.submission.model_dump_json().encode()),
        digest=request.digest(content),
        content=content,
        key=request.key,
        force=request.force,
        device_class=request.device,
        priority=request.priority,
        deadline_ms=max(1, int(request.deadline_s * 1000)),
    )


def _batch_id(client: str, key: str | None) -> str:
    if key is None:
        return uuid.uuid4().hex
    return hashlib.sha256(f"{client}\0{key}".encode()).hexdigest()[:32]


def evaluation_json(task: TaskView, cursor: int | None = None) -> bytes:
    """An `Evaluation` as JSON; the stored result is spliced in, not parsed."""
    head = Evaluation(
        id=task.id,
        state=task.state.value,
        key=task.key,
        device=task.device_class,
        priority=task.priority,
        attempts=task.attempts,
        failures=task.failures,
        reason=task.reason,
        detail=task.detail,
        worker=task.worker,
        submitted_ms=task.submitted_ms,
        claimed_ms=task.claimed_ms,
        finished_ms=task.finished_ms,
        cursor=cursor,
    ).model_dump_json(exclude={"result"})
    return head[:-1].encode() + b',"result":' + (unpack(task.result) or b"null") + b"}"


@router.get("/evaluations/{evaluation_id}", response_model=Evaluation)
async def read(service: ServiceDep, who: ClientDep, evaluation_id: Id) -> Response:
    """One evaluation, with its result once there is one."""
    [task] = await service.broker.view([evaluation_id])
    if task is None or not visible(task, who):
        raise not_found("evaluation")
    return Response(evaluation_json(task), media_type="application/json")


@router.delete("/evaluations/{evaluation_id}")
async def cancel(service: ServiceDep, who: ClientDep, evaluation_id: Id) -> Cancelled:
    """Cancel one evaluation; a running one is killed."""
    [state] = await service.broker.cancel(who.scope, [evaluation_id])
    if state == "unknown":
        raise not_found("evaluation")
    return Cancelled(states={evaluation_id: state})


@router.delete("/batches/{batch_id}")
async def cancel_batch(service: ServiceDep, who: ClientDep, batch_id: Id) -> Cancelled:
    """Cancel what is left of a batch."""
    await _page(service, who, batch_id, 0, 1)
    ids = list(dict.fromkeys(await service.broker.batch_ids(batch_id)))
    states = await service.broker.cancel(who.scope, ids)
    return Cancelled(states=dict(zip(ids, states, strict=True)))


async def _page(
    service: Service, who: Principal, batch_id: str, after: int, limit: int
) -> BatchPage:
    page = await service.broker.batch(batch_id, after, limit)
    if page is None or who.scope not in ("", page.client):
        raise not_found("batch")
    return page


@router.get(
    "/batches/{batch_id}/results",
    response_class=Response,
    responses={200: {"description": "One `Evaluation` a line", "content": {NDJSON: {}}}},
)
async def results(
    request: Request,
    service: ServiceDep,
    who: ClientDep,
    batch_id: Id,
    after: Annotated[int, Query(ge=0, le=10**9, description="Cursor of the last line seen")] = 0,
    wait: Annotated[float, Query(ge=0, le=60, description="Seconds to wait for news")] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 200,
) -> Response:
    """Finished evaluations of a batch after the cursor, in the order they ended.

    Waits until there is at least one, unless the batch is over. The headers ``Kernelgym-Total``,
    ``Kernelgym-Done`` and ``Kernelgym-Cursor`` say how far it is and where to go on.
    """
    deadline = time.monotonic() + wait
    page = await _page(service, who, batch_id, after, limit)
    while page.cursor <= after and page.done < page.total and not service.draining:
        left = deadline - time.monotonic()
        if left <= 0 or await request.is_disconnected():
            break
        if await service.batches.wait([batch_id], min(left, _RECHECK_S)):
            pause_s = min(_COALESCE_S, _COALESCE_EACH_S * (page.total - page.done))
            await asyncio.sleep(min(left, pause_s))
        page = await _page(service, who, batch_id, after, limit)
    lines = [evaluation_json(task, cursor) + b"\n" for cursor, task in page.tasks]
    headers = {
        "Kernelgym-Total": str(page.total),
        "Kernelgym-Done": str(page.done),
        "Kernelgym-Cursor": str(page.cursor),
    }
    return Response(b"".join(lines), headers=headers, media_type=NDJSON)
