"""The application: routes, errors, background tasks.

    uvicorn -> Transport (size, log, headers) -> Host check -> FastAPI -> routes -> broker

Everything that must survive the server is in the broker, so any number of servers may share one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator

from fastapi import FastAPI
from starlette.middleware.trustedhost import TrustedHostMiddleware

from kernelgym import __version__
from kernelgym.broker.protocol import BrokerUnavailable, Limits
from kernelgym.broker.valkey import Broker
from kernelgym.server import compat, description, evaluations, observe, problems, work
from kernelgym.server.auth import build_guard
from kernelgym.server.dashboard import routes
from kernelgym.server.metrics import Metrics
from kernelgym.server.service import Service
from kernelgym.server.transport import Transport
from kernelgym.server.waiting import reap_forever
from kernelgym.settings import ServerSettings

_LOCAL_NAMES = ["localhost", "127.0.0.1", "[::1]"]
_REAP_S = 1.0
log = logging.getLogger("kernelgym.server")


def build_app(settings: ServerSettings, broker_url: str) -> FastAPI:
    """The application on a broker."""
    metrics = Metrics()
    service = Service(
        settings=settings,
        broker=Broker(broker_url),
        guard=build_guard(settings.tokens, settings.state_dir),
        metrics=metrics,
    )
    app = FastAPI(
        title="KernelGYM",
        version=__version__,
        summary="Judges generated GPU kernels.",
        lifespan=lambda _: _background(service),
    )
    app.state.service = service
    problems.install(app)
    for router in (evaluations.router, work.router, observe.router, compat.router, routes.router):
        app.include_router(router)
    description.install(app, anonymous=service.guard.anonymous)
    if not settings.public:
        # A page in a browser on this machine must not reach the gym under a name of its own.
        names = [*_LOCAL_NAMES, *settings.hostnames]
        app.add_middleware(TrustedHostMiddleware, allowed_hosts=names, www_redirect=False)
    app.add_middleware(Transport, max_body_bytes=settings.max_body_bytes, metrics=metrics)
    return app


@contextlib.asynccontextmanager
async def _background(service: Service) -> AsyncIterator[None]:
    """What runs beside the requests."""
    lease_s = service.settings.lease_s
    every_s = min(_REAP_S, lease_s / 4)
    tasks = [
        asyncio.create_task(service.work.run()),
        asyncio.create_task(service.batches.run()),
        asyncio.create_task(reap_forever(service.broker, every_s, lease_s)),
        asyncio.create_task(_configure(service)),
    ]
    yield
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await service.broker.close()


async def _configure(service: Service) -> None:
    """Write the limits to the broker, however long it takes to come up."""
    settings = service.settings
    limits = Limits(
        result_ttl_ms=int(settings.result_ttl_s * 1000),
        max_failures=settings.max_retries,
        max_queued=settings.max_queued,
        max_open_per_client=settings.max_open_per_client,
        max_bytes=settings.max_stored_mb * 1_000_000,
    )
    while True:
        try:
            await service.broker.configure(limits)
            return
        except BrokerUnavailable as error:
            log.warning("waiting for the broker", extra={"error": str(error)})
            await asyncio.sleep(0.5)
