"""Evidence records: fixed-size, written into a pipe by code loaded before the candidate.

What is in the pipe cannot be taken back: the judge drains it after each call. A candidate can write
records of its own into it (it shares the process), but it cannot remove one. On a CPU nothing
confirms these records from outside; results call them ``claimed``.
"""

from __future__ import annotations

import contextlib
import enum
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass

_RECORD = struct.Struct("<HHI3iiiQ16s72s")
RECORD_BYTES = _RECORD.size
"""124 bytes: far below PIPE_BUF, so that records of several threads never mix."""
MAX_DRAIN_BYTES = 16 << 20
"""Most that is read for one call; a flood beyond it is itself a finding."""


class Event(enum.IntEnum):
    """What a record says."""

    LAUNCH = 1
    """A Triton kernel was launched (JIT function or compiled object)."""
    OPERATOR = 2
    """An ATen operator ran; ``count`` times."""
    COMPILE = 3
    """A kernel was compiled."""
    NOTE = 4
    """Something was changed for the run, e.g. autotune cut; the name says what."""
    COPY = 5
    """A launch that was watched left in every tensor that it changed what another one held that is
    not an input of the call."""
    IDLE = 6
    """A launch that was watched changed none of the tensors that it was given."""
    FAILED = 7
    """The launch of that kernel that was recorded last has raised."""
    RESCALED = 8
    """As `COPY`, but for a factor and a constant, or for the order."""


FLAG_OWN = 1
"""The kernel's source lies in the candidate's file."""


@dataclass(frozen=True)
class Record:
    """One piece of evidence."""

    event: Event
    call: int
    """Sequence number of the request during which it happened."""
    name: str
    own: bool = False
    grid: tuple[int, int, int] = (0, 0, 0)
    num_warps: int = 0
    count: int = 1
    digest: bytes = b""
    """First 16 bytes of the SHA-256 of the kernel's source."""

    def pack(self) -> bytes:
        """The record as bytes; a long name is cut."""
        name = self.name.encode(errors="replace")[:72]
        flags = FLAG_OWN if self.own else 0
        return _RECORD.pack(
            self.event, flags, self.call, *self.grid, self.num_warps, self.count, 0,
            self.digest[:16], name,
        )  # fmt: skip


def unpack(data: bytes) -> Iterator[Record]:
    """Records in ``data``; one that is malformed is skipped (the candidate wrote it)."""
    for start in range(0, len(data) - RECORD_BYTES + 1, RECORD_BYTES):
        event, flags, call, x, y, z, warps, count, _, digest, name = _RECORD.unpack_from(
            data, start
        )
        with contextlib.suppress(ValueError):
            yield Record(
                Event(event),
                call,
                name.rstrip(b"\0").decode(errors="replace"),
                bool(flags & FLAG_OWN),
                (x, y, z),
                warps,
                max(0, count),
                digest,
            )


class EvidenceReader:
    """The judge's end of the pipe: never blocks, keeps everything up to a cap."""

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self._fd = fd
        self._data = bytearray()
        self.flooded = False

    def fileno(self) -> int:
        """Descriptor, to be watched while the judge waits for an answer."""
        return self._fd

    def drain(self) -> None:
        """Read what is there now."""
        while True:
            try:
                data = os.read(self._fd, 1 << 16)
            except BlockingIOError:
                return
            if not data:
                return
            if len(self._data) < MAX_DRAIN_BYTES:
                self._data += data
            else:
                self.flooded = True

    def take(self) -> list[Record]:
        """Everything received since the last call of this method."""
        self.drain()
        whole = len(self._data) - len(self._data) % RECORD_BYTES
        records = list(unpack(bytes(self._data[:whole])))
        del self._data[:whole]
        return records

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self._fd)
