"""What the routes share: settings, broker, bells, guard, metrics; and how bodies are stored.

Sources and results are stored compressed; the broker never looks inside. The format is zlib's; isal
writes it as small as zlib's fastest level, in a quarter of the time.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Annotated, cast

from fastapi import Depends, Request
from isal import isal_zlib

from kernelgym.broker.protocol import TaskView
from kernelgym.broker.valkey import Broker
from kernelgym.server.auth import Guard, Principal
from kernelgym.server.metrics import Metrics
from kernelgym.server.problems import ProblemError
from kernelgym.server.waiting import BatchBells, WorkBells
from kernelgym.settings import ServerSettings

_LEVEL = 1
_RETRY_DRAINING_S = 5


@dataclass
class Service:
    """One server's state; everything that must survive it is in the broker."""

    settings: ServerSettings
    broker: Broker
    guard: Guard
    metrics: Metrics
    work: WorkBells = field(init=False)
    batches: BatchBells = field(init=False)
    started: float = field(default_factory=time.monotonic)
    draining: bool = False

    def __post_init__(self) -> None:
        self.work = WorkBells(self.broker)
        self.batches = BatchBells(self.broker)

    def drain(self) -> None:
        """Refuse new work, and let go of everybody who waits."""
        self.draining = True
        self.work.ring_all()
        self.batches.ring_all()

    def accept(self) -> None:
        """Raise when this server is about to stop."""
        if self.draining:
            headers = {"Retry-After": str(_RETRY_DRAINING_S)}
            raise ProblemError(503, "draining", "this server is stopping", headers=headers)


def pack(data: bytes) -> bytes:
    """As it is stored."""
    return isal_zlib.compress(data, _LEVEL)


def unpack(data: bytes) -> bytes:
    """As it was."""
    return isal_zlib.decompress(data) if data else b""


def service_of(request: Request) -> Service:
    """The service of the app that got the request."""
    return cast("Service", request.app.state.service)


async def _client(request: Request) -> Principal:
    return service_of(request).guard.require(request, "client")


async def _worker(request: Request) -> Principal:
    return service_of(request).guard.require(request, "worker")


async def _anyone(request: Request) -> Principal:
    return service_of(request).guard.identify(request)


async def _service(request: Request) -> Service:
    return service_of(request)


ServiceDep = Annotated[Service, Depends(_service)]
ClientDep = Annotated[Principal, Depends(_client)]
WorkerDep = Annotated[Principal, Depends(_worker)]
AnyoneDep = Annotated[Principal, Depends(_anyone)]


def visible(task: TaskView | None, who: Principal) -> bool:
    """Whether the task exists as far as this principal is concerned."""
    return task is not None and who.scope in ("", task.client)
