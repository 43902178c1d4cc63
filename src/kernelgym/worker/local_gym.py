"""A whole gym on one machine: broker, server and worker under one supervisor, one command.

Secrets travel on stdin, never in arguments or the environment, which any process of the machine may
read.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable

from kernelgym.broker.embedded import EmbeddedBroker
from kernelgym.errors import ServiceError
from kernelgym.server.auth import local_token
from kernelgym.server.main import Order as ServerOrder
from kernelgym.server.run import check_binding
from kernelgym.settings import ServerSettings
from kernelgym.worker.main import Order as WorkerOrder
from kernelgym.worker.node import stop_on_signals, worker_program
from kernelgym.worker.supervisor import Program, Supervisor

log = logging.getLogger("kernelgym.supervisor")
_START_S = 60.0


class LocalGym:
    """Broker, server and worker on one machine, in the foreground."""

    def __init__(self, settings: ServerSettings, worker: WorkerOrder, log_level: str) -> None:
        """``worker``: its address and token are filled in here."""
        check_binding(settings)
        self._settings, self._log_level = settings, log_level
        self._worker = worker
        self._logs = settings.state_dir / "logs"
        self._ready = settings.state_dir / "address"
        self._broker: EmbeddedBroker | None = None

    def run(self, announce: Callable[[str], None]) -> None:
        """Run until SIGTERM or SIGINT; ``announce`` gets the address once it answers."""
        self._settings.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._ready.unlink(missing_ok=True)
        url = self._settings.broker or self._start_broker()
        try:
            server = Supervisor([self._server_program(url)], spare=self._spared)
            stop_on_signals(server)
            started = time.monotonic()
            waiting = True

            def tick() -> None:
                nonlocal waiting
                self._keep_broker()
                if waiting and self._ready.exists():
                    waiting = False
                    address = self._ready.read_text()
                    server.add(self._worker_program(address))
                    announce(address)
                elif waiting and time.monotonic() - started > _START_S:
                    raise ServiceError(f"the server did not start; see {self._logs}")

            server.run(tick=tick)
        finally:
            self._ready.unlink(missing_ok=True)
            if self._broker is not None:
                self._broker.stop()

    def _start_broker(self) -> str:
        self._broker = EmbeddedBroker.start(self._settings.state_dir / "broker")
        return self._broker.url

    def _keep_broker(self) -> None:
        if self._broker is not None and not self._broker.alive():
            log.warning("the broker died, starting it again")
            old, self._broker = self._broker, None
            self._start_broker()
            old.stop()

    def _spared(self) -> set[int]:
        return {self._broker.pid} if self._broker is not None else set()

    def _server_program(self, url: str) -> Program:
        order = ServerOrder(
            settings=self._settings.model_copy(update={"broker": url}),
            log_level=self._log_level,
            log_file=self._logs / "server.log",
            ready=self._ready,
        )
        return Program(
            name="server",
            command=[sys.executable, "-m", "kernelgym.server.main"],
            stdin=lambda _: self._pinned(order).model_dump_json().encode(),
            grace_s=20.0,
        )

    def _pinned(self, order: ServerOrder) -> ServerOrder:
        """After a restart the server must be where its clients know it."""
        if not self._ready.exists():
            return order
        port = int(self._ready.read_text().rsplit(":", 1)[1])
        settings = order.settings.model_copy(update={"port": port})
        return order.model_copy(update={"settings": settings})

    def _worker_program(self, address: str) -> Program:
        state = str(self._settings.state_dir.resolve())
        return worker_program(
            self._worker.model_copy(
                update={
                    "server": address,
                    "token": local_token(self._settings.state_dir, "worker"),
                    "hidden": (*self._worker.hidden, state),
                    "log_level": self._log_level,
                    "log_file": self._logs / "worker.log",
                }
            )
        )
