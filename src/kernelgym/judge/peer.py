"""A confined process as the judge sees it: requests with deadlines, answers that are checked.

Whoever speaks on the other end shares a process with the candidate, so nothing it says is believed
beyond its form. What goes wrong is one of a few exceptions, each with the stage it happened in:

* `PeerFailed`     it answered that the request raised (the body is a claim);
* `PeerLate`       no answer before the deadline;
* `PeerGone`       the channel was closed: it ended, or was killed;
* `PeerGarbled`    what came is not a frame: stray bytes, or memory that was trampled on;
* `PeerForged`     a well-formed frame that nobody asked for. No accident writes one.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from kernelgym.judge.link import Spawned
from kernelgym.sandbox.evidence import EvidenceReader, Record
from kernelgym.sandbox.frames import (
    Channel,
    ChannelClosed,
    ChannelTimeout,
    ChannelViolation,
    Frame,
    Kind,
)
from kernelgym.sandbox.messages import Failed
from kernelgym.sandbox.outside_clock import TreeClock

_ANSWERS: dict[Kind, Kind] = {
    Kind.SETUP: Kind.DONE,
    Kind.LOAD: Kind.DONE,
    Kind.BUILD: Kind.DONE,
    Kind.CALL: Kind.OUTPUT,
    Kind.REPORT: Kind.DONE,
    Kind.COMPILE: Kind.DONE,
    Kind.PREPARE: Kind.DONE,
    Kind.CLOCK: Kind.DONE,
    Kind.TIME: Kind.TIMED,
}
_MAY_COMPILE = frozenset({Kind.DONE, Kind.OUTPUT, Kind.ARMED, Kind.TIMED})
"""Answers on whose way kernels may be compiled."""
_READY_LIMIT_S = 20.0
_SEND_LIMIT_S = 30
"""A peer that reads nothing for so long is gone, as far as we are concerned."""

Body = TypeVar("Body", bound=BaseModel)


class PeerError(Exception):
    """Why a request has no good answer."""

    def __init__(self, stage: str, message: str = "") -> None:
        super().__init__(message or type(self).__name__)
        self.stage = stage
        self.handle: int | None = None
        """Whose channel it was."""


class PeerFailed(PeerError):
    """The request raised an exception over there."""

    def __init__(self, stage: str, failed: Failed) -> None:
        super().__init__(stage, failed.message)
        self.failed = failed


class PeerLate(PeerError):
    """No answer in time."""


class PeerGone(PeerError):
    """The process is no longer there."""


class PeerGarbled(PeerError):
    """Something that is not an answer arrived."""


class PeerForged(PeerError):
    """A valid frame out of turn arrived."""


class Peer:
    """Channel, evidence and budget of one confined process."""

    def __init__(
        self,
        spawned: Spawned,
        *,
        budget_s: float,
        gate: Callable[[bool], bool] | None = None,
        settle: Callable[[], None] | None = None,
        clock: Callable[[], TreeClock | None] | None = None,
    ) -> None:
        """``budget_s``: wall time that all its answers together may take.

        ``settle`` is called before each request: with a GPU, what we wrote into the pools must have
        landed, because another context does not wait for ours.

        ``gate`` is told False when a kernel is about to be compiled and True before the candidate
        goes on; with a GPU it gives the device to somebody else meanwhile, and says so by True.

        ``clock`` reads the processor time of its tree from outside.
        """
        self.handle = spawned.handle
        self.level = spawned.level
        self.missing = spawned.missing
        self.budget_s = budget_s
        self.waited_s = 0.0
        fd = spawned.evidence_fd
        self.evidence = None if fd is None else EvidenceReader(fd)
        sock = socket.socket(fileno=spawned.channel_fd)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", _SEND_LIMIT_S, 0))
        self._channel = Channel(sock)
        self._gate = gate or (lambda _held: False)
        self._lent_s: float | None = None
        """Since when the device is lent away, because this process compiles; None: it is not."""
        self._settle = settle or (lambda: None)
        self.outside = clock or (lambda: None)
        """Processor time of its whole tree, which it has no say in; None: not known."""
        self._sequence = 0

    def await_ready(self) -> None:
        """Wait until the harness is up. A failure here is ours, not the candidate's."""
        self._receive("start", 0, Kind.READY, time.monotonic() + _READY_LIMIT_S)

    def request(
        self,
        stage: str,
        kind: Kind,
        body: BaseModel | bytes = b"",
        *,
        limit_s: float,
        fds: Sequence[int] = (),
    ) -> Frame:
        """Send a request and wait for its answer, at most ``limit_s`` and never past the budget."""
        sequence = self.send(stage, kind, body, fds=fds)
        return self.answer(stage, kind, sequence, limit_s=limit_s)

    def send(
        self, stage: str, kind: Kind, body: BaseModel | bytes = b"", *, fds: Sequence[int] = ()
    ) -> int:
        """Send a request without waiting; returns its number. Answers come in order."""
        self._settle()
        self._sequence += 1
        data = body if isinstance(body, bytes) else body.model_dump_json().encode()
        with self._signed():
            try:
                self._channel.send(kind, self._sequence, data, fds)
            except ChannelClosed as error:
                raise PeerGone(stage, str(error)) from error
        return self._sequence

    def answer(self, stage: str, kind: Kind, sequence: int, *, limit_s: float) -> Frame:
        """Wait for the answer to request ``sequence``, which was of ``kind``."""
        started = time.monotonic()
        left = self.budget_s - self.waited_s
        deadline = started + max(0.0, min(limit_s, left))
        try:
            with self._signed():
                return self._receive(stage, sequence, _ANSWERS[kind], deadline)
        finally:
            self.waited_s += time.monotonic() - started

    @contextmanager
    def our_time(self) -> Iterator[None]:
        """Extra calls that we want are not charged to the budget, but get no more than it."""
        waited_s, budget_s = self.waited_s, self.budget_s
        self.budget_s += max(budget_s, 2 * waited_s)
        try:
            yield
        finally:
            self.waited_s, self.budget_s = waited_s, budget_s

    def armed(self, stage: str, sequence: int, *, limit_s: float) -> bool:
        """Whether all of a TIME request is queued, within ``limit_s``.

        Compiling is not counted there, but in the budget: raises `PeerLate` where it takes all.
        """
        try:
            with self._signed():
                left_s = max(0.0, self.budget_s - self.waited_s)
                self._receive(stage, sequence, Kind.ARMED, time.monotonic() + limit_s, left_s)
        except PeerLate:
            if self._lent_s is not None:
                raise
            return False
        return True

    def alive(self) -> bool:
        """Whether the other end of the channel is open."""
        poller = select.poll()
        poller.register(self._channel.fileno(), select.POLLHUP)
        return not poller.poll(0)

    def records(self) -> list[Record]:
        """Evidence that has arrived since the last call."""
        return [] if self.evidence is None else self.evidence.take()

    @property
    def flooded(self) -> bool:
        """Whether more evidence came than is kept."""
        return self.evidence is not None and self.evidence.flooded

    def expect_silence(self, stage: str) -> None:
        """Raise `PeerForged` when an answer is waiting that nobody asked for."""
        poller = select.poll()
        poller.register(self._channel.fileno(), select.POLLIN)
        if any(event & select.POLLIN for _, event in poller.poll(0)):
            with self._signed():
                self._receive(stage, -1, Kind.STOP, time.monotonic() + 0.2)

    def close(self) -> None:
        """Close our ends; the process itself is ended by the host."""
        self._channel.close()
        if self.evidence is not None:
            self.evidence.close()

    @contextmanager
    def _signed(self) -> Iterator[None]:
        try:
            yield
        except PeerError as error:
            error.handle = self.handle
            raise

    def _receive(
        self, stage: str, sequence: int, wanted: Kind, deadline: float, compiling_s: float = 0.0
    ) -> Frame:
        """The frame that is ``wanted``; ``compiling_s``: time for compiling beside the deadline."""
        while True:
            until = deadline if self._lent_s is None else deadline + compiling_s
            frame = self._frame(stage, until)
            if self._lent_s is not None and frame.kind is not Kind.COMPILED:
                raise PeerForged(
                    stage,
                    f"a frame {frame.kind.name} came while the device was lent for a compilation: "
                    "that has to be over, on other threads too, before the answer",
                )
            if frame.kind is Kind.COMPILING and wanted in _MAY_COMPILE:
                self._lent_s = time.monotonic() if self._gate(False) else None
            elif frame.kind is Kind.COMPILED and wanted in _MAY_COMPILE:
                if compiling_s and self._lent_s is not None:
                    spent = time.monotonic() - self._lent_s
                    self.waited_s += spent
                    deadline, compiling_s = deadline + spent, max(0.0, compiling_s - spent)
                self._lent_s = None
                deadline += self._wait_for_gate()
                try:
                    self._channel.send(Kind.GO, sequence)
                except ChannelClosed as error:
                    raise PeerGone(stage, str(error)) from error
            elif frame.kind is Kind.ARMED and wanted is Kind.TIMED and frame.sequence == sequence:
                continue  # it came after we had stopped waiting for it
            elif frame.sequence != sequence or frame.kind not in (wanted, Kind.FAILED):
                raise PeerForged(
                    stage,
                    f"a frame {frame.kind.name} numbered {frame.sequence} came, "
                    f"where {wanted.name} numbered {sequence} was due",
                )
            elif frame.kind is Kind.FAILED:
                raise PeerFailed(stage, parse(Failed, frame, stage))
            else:
                return frame

    def _wait_for_gate(self) -> float:
        """Take the gate again; the seconds that took are nobody's fault here."""
        started = time.monotonic()
        self._gate(True)
        waited = time.monotonic() - started
        self.waited_s -= waited
        return waited

    def _frame(self, stage: str, deadline: float) -> Frame:
        evidence = self.evidence
        watch = None if evidence is None else (evidence.fileno(), evidence.drain)
        try:
            frame = self._channel.receive(deadline, watch=watch)
        except ChannelTimeout as error:
            raise PeerLate(stage) from error
        except ChannelClosed as error:
            raise PeerGone(stage, str(error)) from error
        except ChannelViolation as error:
            raise PeerGarbled(stage, str(error)) from error
        if frame.fds:
            for fd in frame.fds:
                os.close(fd)
            raise PeerGarbled(stage, "descriptors came with an answer")
        return frame


def parse(body: type[Body], frame: Frame, stage: str) -> Body:
    """The body of an answer; raises `PeerGarbled` when it is not one."""
    try:
        return body.model_validate_json(frame.body)
    except (ValidationError, ValueError) as error:
        raise PeerGarbled(stage, f"the body of {frame.kind.name} is malformed") from error
