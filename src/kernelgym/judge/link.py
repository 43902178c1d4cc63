"""Messages between a judge and its host: JSON with a length, descriptors beside it.

Both ends are trusted; the judge is jailed all the same, so the host reads with a cap and treats
whatever breaks the format as a dead judge. Imports no torch.

==========  ====================================================================================
to judge    ``open`` (`OpenTask`), ``evaluate`` (`Evaluate`), ``spawned`` / ``refused`` (answers to
            ``spawn``; the first carries channel and evidence), ``ended`` (answer to ``kill``),
            ``clock`` (answer to ``clock``)
from judge  ``ready``, ``stage`` (what it does now and how long that may take), ``spawn``, ``kill``,
            ``clock`` (what has a tree spent?), ``opened``, ``result``,
            ``fault`` (the judge itself failed)
==========  ====================================================================================
"""

from __future__ import annotations

import json
import socket
import struct
from typing import Any

from kernelgym.errors import SandboxError, TransportError
from kernelgym.sandbox.jail_spec import Ended
from kernelgym.sandbox.outside_clock import TreeClock

HEADER = struct.Struct("<II")
"""Length of the body, number of descriptors."""
MAX_BODY_BYTES = 64 << 20
MAX_FDS = 4

Message = dict[str, Any]


def pack(message: Message, fds: int = 0) -> bytes:
    """Header and body of a message that travels with ``fds`` descriptors."""
    body = json.dumps(message).encode()
    return HEADER.pack(len(body), fds) + body


class Spawned:
    """A confined process that the host started for this judge."""

    def __init__(self, message: Message, fds: list[int]) -> None:
        self.handle: int = message["handle"]
        self.level: str = message["level"]
        self.missing: tuple[str, ...] = tuple(message["missing"])
        self.channel_fd = fds[0]
        self.evidence_fd = fds[1] if len(fds) > 1 else None
        """A compiler process has none."""


class JudgeLink:
    """The judge's end: blocking, one thread."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._tickets = 0
        self._answers: dict[int, tuple[Message, list[int]]] = {}

    def send(self, kind: str, **fields: Any) -> None:
        """Send one message; raises `TransportError` when the host is gone."""
        try:
            self._sock.sendall(pack({"type": kind, **fields}))
        except OSError as error:
            raise TransportError(f"the host went away: {error}") from error

    def receive(self) -> Message:
        """The next request of the host; answers to earlier spawns are put aside."""
        while True:
            message, fds = self._read()
            if "ticket" not in message:
                return message
            self._answers[message["ticket"]] = (message, fds)

    def stage(self, name: str, limit_s: float) -> None:
        """Say what runs now, and after how many seconds of silence to give up on it."""
        self.send("stage", name=name, limit_s=limit_s)

    def ask_spawn(self, role: str) -> int:
        """Ask for a confined process without waiting for it; returns a ticket."""
        self._tickets += 1
        self.send("spawn", role=role, ticket=self._tickets)
        return self._tickets

    def spawned(self, ticket: int) -> Spawned:
        """Wait for what was asked for; raises `SandboxError` when it could not be had."""
        message, fds = self._answer(ticket)
        if message["type"] != "spawned":
            raise SandboxError(message["message"])
        return Spawned(message, fds)

    def ask_kill(self, handle: int, *, grace_s: float = 0.0) -> int:
        """Ask for a process tree to be ended; returns a ticket.

        ``grace_s``: time it gets to end by itself, so that its own exit status is seen.
        """
        self._tickets += 1
        self.send("kill", handle=handle, grace_s=grace_s, ticket=self._tickets)
        return self._tickets

    def ended(self, ticket: int) -> Ended:
        """Wait until that tree is proved dead."""
        message, _ = self._answer(ticket)
        return Ended(**message["ended"])

    def ask_clock(self, handle: int) -> int:
        """Ask what processor time a process tree has used; returns a ticket."""
        self._tickets += 1
        self.send("clock", handle=handle, ticket=self._tickets)
        return self._tickets

    def clock(self, ticket: int) -> TreeClock | None:
        """Wait for that; None where the host cannot know."""
        message, _ = self._answer(ticket)
        return None if message["clock"] is None else TreeClock(**message["clock"])

    def _answer(self, ticket: int) -> tuple[Message, list[int]]:
        while ticket not in self._answers:
            message, fds = self._read()
            if "ticket" not in message:
                raise TransportError(f"the host sent {message.get('type')!r} out of turn")
            self._answers[message["ticket"]] = (message, fds)
        return self._answers.pop(ticket)

    def _read(self) -> tuple[Message, list[int]]:
        header, fds = self._exactly(HEADER.size)
        length, count = HEADER.unpack(header)
        if count != len(fds):
            raise TransportError("descriptors announced and received differ")
        body, _ = self._exactly(length)
        message: Message = json.loads(body)
        return message, fds

    def _exactly(self, size: int) -> tuple[bytes, list[int]]:
        data, fds = b"", []
        parts = []
        while size > 0:
            try:
                data, more, _, _ = socket.recv_fds(self._sock, size, MAX_FDS)
            except OSError as error:
                raise TransportError(f"the host went away: {error}") from error
            if not data:
                raise TransportError("the host went away")
            parts.append(data)
            fds += more
            size -= len(data)
        return b"".join(parts), fds
