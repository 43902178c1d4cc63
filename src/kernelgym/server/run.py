"""Serve the app with uvicorn: binding rules, drain on SIGTERM, a ready file for whoever waits.

Not covered: TLS. Put a proxy in front of a public address (`docs/operations.md`).
"""

from __future__ import annotations

import logging
import os
import signal
import socket
from pathlib import Path
from types import FrameType

import uvicorn

from kernelgym import logs
from kernelgym.broker.embedded import EmbeddedBroker
from kernelgym.errors import ServiceError, UsageError
from kernelgym.server.app import build_app
from kernelgym.server.service import Service
from kernelgym.settings import ServerSettings

log = logging.getLogger("kernelgym.server")
_BACKLOG = 2048
_DRAIN_S = 10


class _Server(uvicorn.Server):
    """Tells the service first when it is asked to stop, so that nobody waits for a long poll."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """SIGTERM or SIGINT."""
        self._service.drain()
        super().handle_exit(sig, frame)


def check_binding(settings: ServerSettings) -> None:
    """A public address needs tokens: whoever reaches the gym can run code on its workers."""
    if settings.public and settings.tokens is None:
        raise UsageError(
            f"{settings.host} can be reached from other machines, and there is no tokens file",
            hint="kernelgym serve --host 127.0.0.1, or --tokens FILE (see docs/operations.md)",
        )


def bind(settings: ServerSettings) -> socket.socket:
    """The listening socket; errors are the user's business, so they come before anything starts."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
    except OSError as error:
        listener.close()
        raise UsageError(
            f"cannot listen on {settings.host}:{settings.port}: {error.strerror}",
            hint="kernelgym serve --port PORT",
        ) from error
    listener.listen(_BACKLOG)
    return listener


def serve(
    settings: ServerSettings,
    *,
    log_level: str = "info",
    log_file: Path | None = None,
    ready: Path | None = None,
) -> None:
    """Run until SIGTERM or SIGINT. ``ready`` gets the address once the socket listens."""
    check_binding(settings)
    logs.configure(log_level, log_file)
    broker: EmbeddedBroker | None = None
    url = settings.broker
    listener = bind(settings)
    try:
        if url is None:
            broker = EmbeddedBroker.start(settings.state_dir / "broker")
            url = broker.url
        _run(settings, url, listener, ready)
    finally:
        listener.close()
        if broker is not None:
            broker.stop()


def _run(settings: ServerSettings, url: str, listener: socket.socket, ready: Path | None) -> None:
    app = build_app(settings, url)
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=_DRAIN_S,
        timeout_keep_alive=75,
        server_header=False,
        lifespan="on",
        loop="uvloop",
        http="httptools",
    )
    server = _Server(config, app.state.service)
    host, port = listener.getsockname()[:2]
    address = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    log.info("serving", extra={"address": address, "pid": os.getpid()})
    if ready is not None:
        _write(ready, address)
    for number in (signal.SIGTERM, signal.SIGINT):
        # uvicorn raises the signal again when it has shut down; we still have a broker to stop.
        signal.signal(number, _ignored)
    server.run(sockets=[listener])
    if not server.started:
        raise ServiceError("the server did not start; its log says why")


def _ignored(_: int, __: FrameType | None) -> None:
    pass


def _write(path: Path, text: str) -> None:
    """All of it or nothing: somebody waits for the file to appear."""
    half = path.with_suffix(".tmp")
    half.write_text(text)
    half.replace(path)
