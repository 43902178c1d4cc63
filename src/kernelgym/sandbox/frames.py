"""The channel between judge and candidate: a fixed header, a capped body, nothing executable.

Bodies towards the candidate are JSON that the judge wrote. Bodies from the candidate are claims:
they are capped, parsed as data, validated, and never decide anything that the judge can see for
itself. Tensors never travel here; they lie in pools (`kernelgym.sandbox.pool`) that both sides map.

Not covered: a candidate can send any frame at any time (it shares a process with the harness), so a
frame out of turn is a `ChannelViolation`, not a bug.
"""

from __future__ import annotations

import enum
import json
import os
import select
import socket
import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

_HEADER = struct.Struct("<4sHHIQ")
_MAGIC = b"KGF1"
MAX_FDS = 8

MAX_REQUEST_BYTES = 8 << 20
"""Longest body towards a candidate (a source, a layout)."""
MAX_ANSWER_BYTES = 1 << 20
"""Longest body from a candidate."""


class Kind(enum.IntEnum):
    """What a frame says. 1-19 go to the candidate, 20-39 come from it."""

    SETUP = 1
    """`Setup`; carries the pools as file descriptors. Answer: DONE."""
    LOAD = 2
    """Source bytes of the candidate: import it as a file. Answer: DONE or FAILED."""
    BUILD = 3
    """Init arguments and state: make the module, copy the state. Answer: DONE or FAILED."""
    CALL = 4
    """Arguments as layouts in the input pool. Answer: OUTPUT or FAILED."""
    REPORT = 5
    """What the harness noted (launch signatures, notes). Answer: DONE with claims."""
    COMPILE = 6
    """`Compile`: cross-compile kernels (compiler process only). Answer: DONE or FAILED."""
    CLOCK = 7
    """`clock_messages.Clock`: prepare timed calls; carries the flag page. Answer: DONE."""
    TIME = 8
    """`clock_messages.Time`: one armed bracket. Answers: ARMED, then TIMED; or FAILED."""
    STOP = 9
    """Leave. No answer."""
    PREPARE = 10
    """`Prepare`: how the next call, and only that one, is observed. Answer: DONE."""

    READY = 20
    """The harness is up; no line of the candidate has run."""
    DONE = 21
    """A request that returns no tensors is finished; body: claims as JSON."""
    OUTPUT = 22
    """A call has returned; body: tree and layouts of what it returned."""
    FAILED = 23
    """A request raised; body: type, message, traceback."""
    COMPILING = 24
    """A kernel is about to be compiled: the gate may be given to somebody else."""
    COMPILED = 25
    """The compilation is over, well or not; the harness waits for GO before it touches the GPU."""
    GO = 26
    """Judge to candidate: the gate is held again."""
    ARMED = 27
    """All of a bracket is queued behind its flag."""
    TIMED = 28
    """The bracket is over; body: times and outputs as claims."""


class ChannelClosed(Exception):
    """The other side has closed the channel (it ended, or was killed)."""


class ChannelTimeout(Exception):
    """Nothing complete arrived before the deadline."""


class ChannelViolation(Exception):
    """What arrived is not a frame, or not one that may come now."""


@dataclass(frozen=True)
class Frame:
    """One message: kind, number of the request it belongs to, body, descriptors."""

    kind: Kind
    sequence: int
    body: bytes
    fds: tuple[int, ...] = ()

    def json(self) -> Any:
        """Body as JSON data; raises `ChannelViolation` when it is not."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError) as error:
            raise ChannelViolation(f"body of {self.kind.name} is not JSON") from error


class Channel:
    """One end of the socket. Blocking, with deadlines; not for use by several threads."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._sock.setblocking(True)

    def fileno(self) -> int:
        """File descriptor of the socket."""
        return self._sock.fileno()

    def close(self) -> None:
        """Close this end."""
        self._sock.close()

    def send(self, kind: Kind, sequence: int, body: bytes = b"", fds: Sequence[int] = ()) -> None:
        """Send one frame; raises `ChannelClosed` when nobody is there any more."""
        data = _HEADER.pack(_MAGIC, kind, len(fds), len(body), sequence)
        try:
            if fds:
                socket.send_fds(self._sock, [data], list(fds))
                self._sock.sendall(body)
            else:
                self._sock.sendall(data + body)
        except OSError as error:
            raise ChannelClosed(str(error)) from error

    def send_json(
        self, kind: Kind, sequence: int, payload: object, fds: Sequence[int] = ()
    ) -> None:
        """Send a frame whose body is ``payload`` as JSON."""
        self.send(kind, sequence, json.dumps(payload).encode(), fds)

    def receive(
        self,
        deadline: float | None = None,
        *,
        limit: int = MAX_ANSWER_BYTES,
        watch: tuple[int, Callable[[], object]] | None = None,
    ) -> Frame:
        """Read one frame.

        ``deadline`` is a `time.monotonic` value. ``watch`` is a descriptor and what to call
        whenever it is readable while we wait, so that a full evidence pipe blocks nobody.
        """
        header, fds = self._read(_HEADER.size, deadline, watch, want_fds=True)
        magic, kind, count, length, sequence = _HEADER.unpack(header)
        try:
            if magic != _MAGIC or kind not in Kind.__members__.values():
                raise ChannelViolation("not a frame")  # noqa: TRY301
            if length > limit:
                raise ChannelViolation(f"a body of {length} bytes, more than {limit}")  # noqa: TRY301
            if count != len(fds):
                raise ChannelViolation("descriptors announced and received differ")  # noqa: TRY301
            body, _ = self._read(length, deadline, watch)
        except BaseException:
            for fd in fds:  # or a judge that lives on would collect them
                os.close(fd)
            raise
        return Frame(Kind(kind), sequence, body, tuple(fds))

    def _read(
        self,
        size: int,
        deadline: float | None,
        watch: tuple[int, Callable[[], object]] | None,
        *,
        want_fds: bool = False,
    ) -> tuple[bytes, list[int]]:
        parts: list[bytes] = []
        fds: list[int] = []
        while size > 0:
            self._wait(deadline, watch)
            try:
                if want_fds and not parts:
                    data, fds, _, _ = socket.recv_fds(self._sock, size, MAX_FDS)
                else:
                    data = self._sock.recv(size)
            except OSError as error:
                raise ChannelClosed(str(error)) from error
            if not data:
                raise ChannelClosed("end of stream")
            parts.append(data)
            size -= len(data)
        return b"".join(parts), fds

    def _wait(self, deadline: float | None, watch: tuple[int, Callable[[], object]] | None) -> None:
        poller = select.poll()
        poller.register(self._sock, select.POLLIN)
        if watch is not None:
            poller.register(watch[0], select.POLLIN)
        while True:
            left = None if deadline is None else max(0.0, deadline - time.monotonic()) * 1e3
            ready = poller.poll(left)
            if not ready:
                raise ChannelTimeout
            for fd, event in ready:
                if watch is not None and fd == watch[0]:
                    if event & select.POLLIN:
                        watch[1]()
                    else:  # writer gone: stop watching, or poll would spin
                        poller.unregister(fd)
            if any(fd == self._sock.fileno() for fd, _ in ready):
                return
