"""A worker's agent that writes down what it is given and what becomes of it."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernelgym.api import ClaimAnswer, Settlement
from kernelgym.worker.agent import Agent
from kernelgym.worker.link import Link
from kernelgym.worker.seat import Seat


class LoggingLink(Link):
    """Writes down what it is given and what becomes of it."""

    def __init__(self, server: str, token: str, worker: str, path: str | None) -> None:
        super().__init__(server, token, worker)
        self._log = Path(path).open("a", buffering=1) if path else None  # noqa: SIM115 - kept open

    def write(self, **event: Any) -> None:
        if self._log:
            line = {"time": time.time(), "who": self.worker, **event}
            self._log.write(json.dumps(line) + "\n")

    async def claim(self, classes: Sequence[str], limit: int) -> ClaimAnswer:
        answer = await super().claim(classes, limit)
        for task in answer.tasks:
            self.write(op="claim", id=task.id, token=task.token)
        return answer

    async def complete(self, items: Sequence[Settlement]) -> tuple[str, ...]:
        answers = await super().complete(items)
        for item, answer in zip(items, answers, strict=True):
            self.write(op="settle", id=item.id, token=item.token, kind=item.kind, answer=answer)
        return answers


async def work(order: dict[str, Any], seats: Sequence[Seat]) -> None:
    """Work on the seats until SIGTERM."""
    link = LoggingLink(order["server"], order["token"], order["name"], order.get("log"))
    agent = Agent(link, seats, jail="none")
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, agent.drain)
    await agent.run(grace_s=order.get("grace_s", 10.0))
    await link.close()
