"""Routes that say how the gym is: queue, workers, health, readiness, metrics."""

from __future__ import annotations

from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import JSONResponse, PlainTextResponse, Response

from kernelgym import __version__
from kernelgym.api import QueueView, WorkerInfo, WorkerStatus
from kernelgym.broker.protocol import BrokerUnavailable
from kernelgym.server.presence import SILENT_LEASES, connected
from kernelgym.server.service import AnyoneDep, ClientDep, Service, ServiceDep

router = APIRouter(tags=["observation"])
_JSON: dict[str, dict[str, object]] = {"application/json": {}}


async def worker_states(service: Service) -> list[WorkerStatus]:
    """All workers heard of lately."""
    now = await service.broker.now_ms()
    limit_s = service.settings.lease_s * SILENT_LEASES
    listed = []
    for view in await service.broker.workers():
        seen_s = max(0.0, (now - view.seen_ms) / 1000)
        info = WorkerInfo.model_validate_json(view.info)
        alive = seen_s < limit_s
        listed.append(WorkerStatus(name=view.name, seen_s=seen_s, alive=alive, info=info))
    return listed


async def queue_state(service: Service) -> QueueView:
    """The queue, in seconds."""
    stats = await service.broker.stats()
    return QueueView(
        states=stats.states,
        waiting=stats.waiting,
        oldest_s={name: age / 1000 for name, age in stats.oldest_ms.items()},
        counters=stats.counters,
        stored_bytes=stats.stored_bytes,
        connected=await connected(service),
    )


@router.get("/v1/queue")
async def queue(service: ServiceDep, _: ClientDep) -> QueueView:
    """States, waiting evaluations by class and client, counters."""
    return await queue_state(service)


@router.get("/v1/workers")
async def workers(service: ServiceDep, _: ClientDep) -> list[WorkerStatus]:
    """Workers and their devices."""
    return await worker_states(service)


@router.get("/healthz")
async def healthz() -> dict[str, str]:
    """The process answers."""
    return {"status": "ok", "version": __version__}


@router.get("/readyz", responses={503: {"description": "Not ready", "content": _JSON}})
async def readyz(service: ServiceDep) -> Response:
    """Whether evaluations can be accepted: the broker answers, the server is not stopping."""
    broker = "ok"
    try:
        await service.broker.ping()
    except BrokerUnavailable:
        broker = "unavailable"
    ready = broker == "ok" and not service.draining
    content = {"ready": ready, "broker": broker, "draining": service.draining}
    return JSONResponse(content, 200 if ready else 503)


@router.get("/metrics", response_class=PlainTextResponse)
async def metrics(service: ServiceDep, _: AnyoneDep) -> Response:
    """Prometheus text."""
    stats = await service.broker.stats()
    text = service.metrics.render(stats, await worker_states(service))
    return Response(text, media_type=CONTENT_TYPE_LATEST)
