"""What a worker says to the server: claim, keep, complete, leave; over HTTP, with patience.

A worker outlives its server: every call is repeated until it is answered, and every call is safe to
repeat (a claim by the name of its request, a completion by its token).
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence

from pydantic import BaseModel

from kernelgym.api import (
    ClaimAnswer,
    ClaimRequest,
    CompleteRequest,
    HeartbeatAnswer,
    HeartbeatRequest,
    HeldTask,
    Settlement,
    WorkAnswers,
    WorkerInfo,
)
from kernelgym.client.calls import Call, Flow, Reply, ask
from kernelgym.client.faults import GymUnavailable
from kernelgym.client.transport import AsyncTransport

CLAIM_WAIT_S = 25.0
_FOREVER_S = 10.0**9
_LEAVE_PATIENCE_S = 5.0


class Link:
    """A worker's connection to its server."""

    def __init__(self, server: str | None, token: str | None, worker: str) -> None:
        self.worker = worker
        self._transport = AsyncTransport(server, token, None)

    async def close(self) -> None:
        """Close the connections."""
        await self._transport.close()

    async def claim(self, classes: Sequence[str], limit: int) -> ClaimAnswer:
        """Wait for work; empty after a while without any."""
        request = ClaimRequest(
            request=uuid.uuid4().hex, classes=tuple(classes), limit=limit, wait_s=CLAIM_WAIT_S
        )
        reply = await self._post("claim", request, _FOREVER_S, extra_s=CLAIM_WAIT_S)
        return ClaimAnswer.model_validate_json(reply.body)

    async def heartbeat(
        self, info: WorkerInfo, held: Sequence[HeldTask], patience_s: float
    ) -> HeartbeatAnswer | None:
        """Extend leases; None when the server does not answer in time."""
        request = HeartbeatRequest(info=info, held=tuple(held))
        try:
            reply = await self._post("heartbeat", request, patience_s)
        except GymUnavailable:
            return None
        return HeartbeatAnswer.model_validate_json(reply.body)

    async def complete(self, items: Sequence[Settlement]) -> tuple[str, ...]:
        """Give tasks back."""
        reply = await self._post("complete", CompleteRequest(items=tuple(items)), _FOREVER_S)
        return WorkAnswers.model_validate_json(reply.body).answers

    async def leave(self) -> None:
        """Say goodbye; whatever is still held goes back to the queue."""
        try:
            await self._transport.drive(leave_flow(self.worker, lost=False))
        except GymUnavailable:
            return  # its leases end by themselves

    async def _post(
        self, verb: str, body: BaseModel, patience_s: float, extra_s: float = 0.0
    ) -> Reply:
        headers = {"Content-Type": "application/json"}
        path = f"/v1/workers/{self.worker}/{verb}"
        content = body.model_dump_json().encode()
        call = Call("POST", path, content, headers=headers, extra_s=extra_s)
        return await self._transport.drive(ask(call, patience_s))


def leave_flow(worker: str, *, lost: bool) -> Flow[list[str]]:
    """Hand back all tasks of a worker; ``lost`` when somebody else says so of a dead one."""
    params = {"lost": "true" if lost else "false"}
    reply = yield from ask(
        Call("DELETE", f"/v1/workers/{worker}", params=params), _LEAVE_PATIENCE_S
    )
    returned: list[str] = json.loads(reply.body)["returned"]
    return returned
