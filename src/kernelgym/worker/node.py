"""A supervised worker on this machine.

Secrets travel on stdin, never in arguments or the environment, which any process of the machine may
read.
"""

from __future__ import annotations

import logging
import os
import platform
import secrets
import signal
import sys

from kernelgym.client.faults import GymRefused, GymUnavailable
from kernelgym.client.transport import Transport
from kernelgym.worker.link import leave_flow
from kernelgym.worker.main import Order as WorkerOrder
from kernelgym.worker.supervisor import Program, Supervisor

log = logging.getLogger("kernelgym.supervisor")
HANGS_AFTER_S = 30.0
_START_S = 60.0


def worker_program(order: WorkerOrder) -> Program:
    """A worker that is restarted when it dies or hangs; its tasks go back at once."""
    base = f"{platform.node()}:{os.getpid()}:{secrets.token_hex(3)}"

    def name(number: int) -> str:
        return f"{base}:{number}"

    def give_back(number: int) -> None:
        transport = Transport(order.server, order.token, None)
        try:
            returned = transport.drive(leave_flow(name(number), lost=True))
            log.info("tasks handed back", extra={"worker": name(number), "tasks": len(returned)})
        except (GymUnavailable, GymRefused) as error:
            log.warning("tasks not handed back, their leases will end", exc_info=error)
        finally:
            transport.close()

    return Program(
        name="worker",
        command=[sys.executable, "-m", "kernelgym.worker.main"],
        stdin=lambda number: (
            order.model_copy(update={"name": name(number)}).model_dump_json().encode()
        ),
        beats_s=HANGS_AFTER_S,
        ended=give_back,
        grace_s=order.grace_s + 30.0,
    )


def run_worker(order: WorkerOrder) -> None:
    """Keep a worker running until SIGTERM or SIGINT."""
    supervisor = Supervisor([worker_program(order)], spare=set)
    stop_on_signals(supervisor)
    supervisor.run()


def stop_on_signals(supervisor: Supervisor) -> None:
    """SIGTERM and SIGINT end it in good order."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, supervisor.stop)
