"""Messages between a host and its zygote: one JSON datagram each, with file descriptors.

Both ends are trusted. A sequenced-packet socket keeps the boundaries, so a message is whole or not
there at all. Imports no torch.
"""

from __future__ import annotations

import json
import os
import select
import socket
import time
from collections.abc import Sequence
from typing import Any

from kernelgym.errors import TransportError

MAX_MESSAGE_BYTES = 128 << 10
MAX_FDS = 16


def pair() -> tuple[socket.socket, socket.socket]:
    """Two connected ends."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def send(sock: socket.socket, message: dict[str, Any], fds: Sequence[int] = ()) -> None:
    """Send one message; raises `TransportError` when the peer is gone or the message too long."""
    data = json.dumps(message).encode()
    if len(data) > MAX_MESSAGE_BYTES:
        raise TransportError(f"a message of {len(data)} bytes to the zygote")
    try:
        socket.send_fds(sock, [data], list(fds))
    except OSError as error:
        raise TransportError(f"the zygote went away: {error}") from error


def receive(
    sock: socket.socket, deadline: float | None = None
) -> tuple[dict[str, Any], tuple[int, ...]]:
    """Wait for one message; ``deadline`` is a `time.monotonic` value.

    Raises `TransportError` at the deadline and when the peer is gone.
    """
    poller = select.poll()
    poller.register(sock, select.POLLIN)
    left = None if deadline is None else max(0.0, deadline - time.monotonic()) * 1e3
    if not poller.poll(left):
        raise TransportError("the zygote did not answer in time")
    try:
        data, fds, _, _ = socket.recv_fds(sock, MAX_MESSAGE_BYTES, MAX_FDS, socket.MSG_CMSG_CLOEXEC)
    except OSError as error:
        raise TransportError(f"the zygote went away: {error}") from error
    if not data:
        for fd in fds:
            os.close(fd)
        raise TransportError("the zygote went away")
    message: dict[str, Any] = json.loads(data)
    return message, tuple(fds)
