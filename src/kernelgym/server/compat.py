"""The authors' routes and field names, so that code written for their service runs unchanged.

    POST /evaluate, /evaluate/batch      hold the connection until the verdict, like theirs
    GET  /status/{task_id}, /results/{task_id};  DELETE /tasks/{task_id}
    GET  /health, /queue/status, /workers/status, /

Unlike theirs: a task that runs is known to /status; the same task_id with other code is another
task; force_refresh evaluates again; a batch runs in parallel; nothing is lost with a connection.
Unknown fields are ignored, as there. Not covered: their worker and debugging routes, and fields
that had no effect. `kernel_runtime` is -1 and `speedup` 0 where nothing was measured.
"""

from __future__ import annotations

import hashlib
import time
import uuid
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import RedirectResponse, Response

from kernelgym import __version__
from kernelgym.api import EvaluationRequest
from kernelgym.broker.protocol import State, TaskView
from kernelgym.schema import EvalResult, Submission, Task
from kernelgym.server.auth import Principal
from kernelgym.server.compat_result import response_of
from kernelgym.server.evaluations import store
from kernelgym.server.observe import queue_state, worker_states
from kernelgym.server.problems import ProblemError, not_found
from kernelgym.server.service import ClientDep, Service, ServiceDep, unpack

router = APIRouter(tags=["compatibility"])
_RECHECK_S = 2.0
_PRIORITIES = {"low": 2, "normal": 5, "high": 8}
_STATUS = {
    State.QUEUED: "pending",
    State.LEASED: "processing",
    State.PREPARING: "processing",
    State.RUNNING: "processing",
    State.DONE: "completed",
    State.CANCELLED: "failed",
    State.DEAD: "failed",
}
_COMPILED = ("torch_compile", "torch-compile", "compile")

TaskId = Annotated[str, Path(min_length=1, max_length=100)]


class OldRequest(BaseModel):
    """Their EvaluationRequest, the fields that have an effect."""

    model_config = ConfigDict(extra="ignore")

    task_id: str = Field(min_length=1, max_length=100)
    reference_code: str = Field(min_length=10, max_length=100_000)
    kernel_code: str = Field(min_length=10, max_length=100_000)
    backend: str = Field(default="triton", max_length=64)
    num_correct_trials: int = Field(default=5, ge=1, le=20)
    timeout: float = Field(default=300, ge=10, le=3600)
    priority: str = "normal"
    entry_point: str = "Model"
    reference_backend: str | None = None
    force_refresh: bool = False

    def request(self) -> EvaluationRequest:
        """As a request of ours; the key covers the code, so other code is another task."""
        eager = self.reference_backend not in _COMPILED
        submission = Submission(
            task=Task(
                name=self.task_id, reference=self.reference_code, entry_point=self.entry_point
            ),
            source=self.kernel_code,
            backend=self.backend,
            entry_point=f"{self.entry_point}New",
            protocol="kernelbench",
            trials=self.num_correct_trials,
            timeout_s=self.timeout,
            baseline="eager" if eager else "torch_compile",
        )
        request = EvaluationRequest(
            submission=submission,
            priority=_PRIORITIES.get(self.priority, 5),
            force=self.force_refresh,
        )
        unique = uuid.uuid4().hex if self.force_refresh else ""
        words = f"{self.task_id}\0{request.digest(request.content_hash())}\0{unique}"
        key = "task-" + hashlib.sha256(words.encode()).hexdigest()
        return request.model_copy(update={"key": key})


class OldBatch(BaseModel):
    """Their batch."""

    model_config = ConfigDict(extra="ignore")

    batch_id: str = Field(min_length=1, max_length=100)
    tasks: tuple[OldRequest, ...] = Field(min_length=1, max_length=100)


async def _run(
    request: Request, service: Service, who: Principal, old: tuple[OldRequest, ...]
) -> list[dict[str, Any]]:
    """Queue, remember the names, wait for the end of all."""
    service.accept()
    accepted = await store(service, who, tuple(one.request() for one in old))
    for one, evaluation_id in zip(old, accepted.ids, strict=True):
        ttl_s = service.settings.result_ttl_s
        await service.broker.name(who.name, one.task_id, evaluation_id, ttl_s)
    while True:
        views = await service.broker.view(accepted.ids)
        if all(view is None or view.state.final for view in views):
            break
        if service.draining:
            raise ProblemError(503, "draining", "this server is stopping; ask again")
        if await request.is_disconnected():
            raise ProblemError(503, "draining", "nobody waits for the answer any more")
        await service.batches.wait([accepted.batch], _RECHECK_S)
    return [
        response_of(one.task_id, view, _result(view)) for one, view in zip(old, views, strict=True)
    ]


def _result(view: TaskView | None) -> EvalResult | None:
    if view is None or not view.result:
        return None
    return EvalResult.model_validate_json(unpack(view.result))


@router.post("/evaluate")
async def evaluate(
    request: Request, service: ServiceDep, who: ClientDep, body: OldRequest
) -> dict[str, Any]:
    """Evaluate one and answer with the verdict."""
    [answer] = await _run(request, service, who, (body,))
    return answer


@router.post("/evaluate/batch")
async def evaluate_batch(
    request: Request, service: ServiceDep, who: ClientDep, body: OldBatch
) -> dict[str, Any]:
    """Evaluate up to 100 and answer when all have ended."""
    submitted = _now()
    results = await _run(request, service, who, body.tasks)
    completed = sum(one["status"] == "completed" for one in results)
    return {
        "batch_id": body.batch_id,
        "total_tasks": len(results),
        "completed_tasks": completed,
        "failed_tasks": len(results) - completed,
        "results": results,
        "batch_status": "completed",
        "submitted_at": submitted,
        "completed_at": _now(),
    }


async def _find(service: Service, who: Principal, task_id: str) -> TaskView:
    evaluation_id = await service.broker.named(who.name, task_id)
    views = await service.broker.view([evaluation_id] if evaluation_id else [])
    if not views or views[0] is None:
        raise not_found("task")
    return views[0]


@router.get("/status/{task_id}")
async def status(service: ServiceDep, who: ClientDep, task_id: TaskId) -> dict[str, Any]:
    """Where the task of that name is; the latest, when it was sent more than once."""
    view = await _find(service, who, task_id)
    word = _STATUS[view.state]
    if view.state is State.DONE:
        word = response_of(task_id, view, _result(view))["status"]
    return {
        "task_id": task_id,
        "status": word,
        "progress": 1.0 if view.state.final else 0.0,
        "estimated_completion": None,
        "queue_position": None,
        "assigned_device": view.worker or None,
    }


@router.get("/results/{task_id}")
async def results(service: ServiceDep, who: ClientDep, task_id: TaskId) -> dict[str, Any]:
    """The verdict, once there is one."""
    view = await _find(service, who, task_id)
    if not view.state.final:
        raise ProblemError(404, "not_found", f"task {task_id} has not ended yet")
    return response_of(task_id, view, _result(view))


@router.delete("/tasks/{task_id}")
async def cancel(service: ServiceDep, who: ClientDep, task_id: TaskId) -> dict[str, str]:
    """Cancel; a running one is killed."""
    view = await _find(service, who, task_id)
    [state] = await service.broker.cancel(who.scope, [view.id])
    return {"message": f"task {task_id} is {state}"}


@router.get("/health")
async def health(request: Request, service: ServiceDep) -> dict[str, Any]:
    """Counts and GPUs, for whoever watched their service; without a token that is needed, less."""
    queue = await queue_state(service)
    states = queue.states
    active = sum(states.get(name, 0) for name in ("leased", "preparing", "running"))
    workers = [worker for worker in await worker_states(service) if worker.alive]
    devices = {f"{w.name}/{d.name}": d.state for w in workers for d in w.info.devices}
    brief = {"status": "healthy" if devices else "degraded", "timestamp": _now()}
    if not _is_client(request, service):
        return brief
    return {
        **brief,
        "gpu_status": devices,
        "queue_status": {"pending": states.get("queued", 0), "processing": active},
        "memory_usage": {"stored_bytes": queue.stored_bytes},
        "active_tasks": active,
        "total_processed": queue.counters.get("done", 0),
        "uptime": time.monotonic() - service.started,
    }


def _is_client(request: Request, service: Service) -> bool:
    try:
        service.guard.require(request, "client")
    except ProblemError:
        return False
    return True


@router.get("/queue/status")
async def queue_status(service: ServiceDep, _: ClientDep) -> dict[str, Any]:
    """Length of the queue."""
    queue = await queue_state(service)
    by_class = {name: sum(clients.values()) for name, clients in queue.waiting.items()}
    pending = queue.states.get("queued", 0)
    return {"pending": pending, "pending_by_prefix": by_class, "worker_queues": {}}


@router.get("/workers/status")
async def workers_status(service: ServiceDep, _: ClientDep) -> dict[str, Any]:
    """Workers by name."""
    now = datetime.now(UTC).timestamp()
    return {
        worker.name: {
            "device": ",".join(device.name for device in worker.info.devices),
            "status": "online" if worker.alive else "offline",
            "last_heartbeat": datetime.fromtimestamp(now - worker.seen_s, UTC).isoformat(),
            "node_id": worker.info.host,
            "hostname": worker.info.host,
        }
        for worker in await worker_states(service)
    }


@router.get("/", response_model=None)
async def root(request: Request) -> Response | dict[str, str]:
    """A browser gets the status page, a program the name and version."""
    if "text/html" in request.headers.get("accept", ""):
        return RedirectResponse("/ui")
    return {
        "name": "KernelGYM",
        "version": __version__,
        "description": "Judges generated GPU kernels.",
        "timestamp": _now(),
    }


def _now() -> str:
    return datetime.now(UTC).isoformat()
