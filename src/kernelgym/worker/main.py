"""A worker as a program of a supervisor: settings as JSON on stdin, the token included.

    python -m kernelgym.worker.main < order.json

It attacks its own jail first and refuses to work when the jail does not hold.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import signal
import sys
from pathlib import Path

from pydantic import BaseModel

from kernelgym import logs
from kernelgym.errors import KernelGymError, UsageError
from kernelgym.schema import JailLevel
from kernelgym.worker.agent import Agent
from kernelgym.worker.health import find_gpus, gpu_trouble
from kernelgym.worker.link import Link
from kernelgym.worker.seat import Evaluator, Seat

log = logging.getLogger("kernelgym.worker")


class Order(BaseModel):
    """What the supervisor asks for."""

    server: str
    token: str | None = None
    name: str
    gpus: tuple[int, ...] | None = None
    """None: all there are."""
    preparing: int = 3
    """Evaluations that are prepared beside the running one, for each GPU."""
    cpu_slots: int | None = None
    """Evaluations at once on a machine without a GPU; None: one a core."""
    jail: JailLevel = "L1"
    fallback: bool = False
    """A lower jail level will do."""
    hidden: tuple[str, ...] = ()
    """Directories that no candidate may see."""
    memory_mb: int = 8192
    grace_s: float = 60.0
    log_level: str = "info"
    log_file: Path | None = None


def main() -> int:
    """Read the order and work until SIGTERM."""
    order = Order.model_validate_json(sys.stdin.buffer.read())
    logs.configure(order.log_level, order.log_file)
    try:
        asyncio.run(_work(order))
    except KernelGymError as error:
        extra = {"error": str(error), "hint": error.hint}
        log.critical("worker cannot work", extra=extra)
        return 2 if isinstance(error, UsageError) else 3
    return 0


async def _work(order: Order) -> None:
    seats = await _seats(order)
    on_gpu = any(seat.uuid for seat in seats)
    jail = await asyncio.to_thread(_test_jail, order, gpu=on_gpu)
    link = Link(order.server, order.token, order.name)
    beat = os.environ.get("KERNELGYM_BEAT_FD")
    agent = Agent(link, seats, jail=jail, beat_fd=int(beat) if beat else None)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, agent.drain)
    names = [seat.name for seat in seats]
    log.info("working", extra={"worker": order.name, "devices": names, "jail": jail})
    try:
        await agent.run(grace_s=order.grace_s)
    finally:
        await link.close()


def _test_jail(order: Order, *, gpu: bool) -> str:
    from kernelgym.sandbox import cgroup_places, jail, selftest
    from kernelgym.sandbox.jail import JailSpec

    jail.sweep()  # what a worker left that was killed
    if not cgroup_places.delegate():
        log.info("no group of cgroup v2 of its own", extra={"cgroups": cgroup_places.parents()})
    spec = JailSpec(
        level=order.jail,
        memory_bytes=order.memory_mb << 20,
        hidden=order.hidden,
        fallback=order.fallback,
        gpu=gpu,
        seals=gpu,
    )
    report = selftest.check(spec)
    for breach in report.breaches:
        log.warning("jail breached", extra={"breach": breach})
    return report.level


async def _seats(order: Order) -> list[Seat]:
    gpus = await find_gpus() if order.gpus != () else []
    known = {gpu.index: gpu for gpu in gpus}
    wanted = list(known) if order.gpus is None else list(order.gpus)
    if missing := [index for index in wanted if index not in known]:
        raise UsageError(f"there is no GPU {missing[0]}", hint="kernelgym doctor")
    if not wanted:
        slots = order.cpu_slots or os.cpu_count() or 1
        make = functools.partial(_host, order, "cpu", slots)
        return [Seat("cpu", classes=("cpu", "any"), slots=slots, evaluator=make)]
    return [
        Seat(
            f"cuda:{index}",
            classes=(known[index].device_class, "gpu", "any"),
            slots=1 + order.preparing,
            evaluator=functools.partial(_host, order, f"cuda:{index}", 1 + order.preparing),
            health=functools.partial(gpu_trouble, index),
            model=known[index].model,
            uuid=known[index].uuid,
        )
        for index in wanted
    ]


def _host(order: Order, device: str, slots: int) -> Evaluator:
    from kernelgym.worker.host import EvaluationHost

    return EvaluationHost(
        jail_level=order.jail,
        device=device,
        fallback=order.fallback,
        concurrency=slots,
        hidden=order.hidden,
    )


if __name__ == "__main__":
    sys.exit(main())
