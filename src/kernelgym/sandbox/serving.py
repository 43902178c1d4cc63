"""The request loop that candidate and compiler processes share.

Every request gets exactly one answer with its sequence number; whatever a handler raises,
`SystemExit` included, becomes FAILED. The loop ends at STOP or when the judge has closed the
channel.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from pydantic import BaseModel

from kernelgym.sandbox import frames
from kernelgym.sandbox.frames import Channel, ChannelClosed, Frame, Kind
from kernelgym.sandbox.messages import Failed

Handler = Callable[[Frame], tuple[Kind, BaseModel]]


def serve(
    channel: Channel,
    handlers: Mapping[Kind, Handler],
    describe: Callable[[BaseException], Failed],
) -> None:
    """Send READY, then answer requests until STOP."""
    channel.send(Kind.READY, 0)
    while True:
        try:
            request = channel.receive(limit=frames.MAX_REQUEST_BYTES)
        except ChannelClosed:
            return
        if request.kind is Kind.STOP:
            return
        kind, body = _answer(handlers, request, describe)
        try:
            channel.send(kind, request.sequence, body)
        except ChannelClosed:
            return


def _answer(
    handlers: Mapping[Kind, Handler],
    request: Frame,
    describe: Callable[[BaseException], Failed],
) -> tuple[Kind, bytes]:
    handler = handlers.get(request.kind)
    try:
        if handler is None:
            raise ValueError(f"{request.kind.name} cannot be answered here")  # noqa: TRY301
        kind, answer = handler(request)
        body = answer.model_dump_json().encode()
        if len(body) > frames.MAX_ANSWER_BYTES:
            raise ValueError("the result is too large to be described")  # noqa: TRY301
        return kind, body
    except BaseException as error:  # noqa: BLE001 - candidate code runs in the handler
        return Kind.FAILED, describe(error).model_dump_json().encode()


def leave(status: int = 0) -> None:
    """End the process now: no exit handlers, threads or finalisers of the candidate."""
    os._exit(status)
