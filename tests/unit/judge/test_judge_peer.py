"""The judge's end of a channel whose other end is hostile."""

import os
import socket
import threading
import time

import pytest

from kernelgym.judge.link import Spawned
from kernelgym.judge.peer import (
    Peer,
    PeerFailed,
    PeerForged,
    PeerGarbled,
    PeerGone,
    PeerLate,
    parse,
)
from kernelgym.sandbox.evidence import Event, Record
from kernelgym.sandbox.frames import _HEADER, Channel, Kind
from kernelgym.sandbox.messages import Claims


class Other:
    """The other end, as a script."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        read, self.evidence = os.pipe()
        message = {"handle": 7, "level": "L1", "missing": []}
        self.peer = Peer(Spawned(message, [ours.detach(), read]), budget_s=30.0)
        self.sock = theirs
        self.channel = Channel(theirs)

    def ask(self, kind: Kind = Kind.REPORT, limit_s: float = 5.0):
        return self.peer.request("forward", kind, limit_s=limit_s)

    def close(self) -> None:
        self.peer.close()
        self.channel.close()
        os.close(self.evidence)


@pytest.fixture
def other():
    made = Other()
    yield made
    made.close()


def test_an_answer_with_the_right_number_is_taken(other):
    other.channel.send(Kind.READY, 0)
    other.peer.await_ready()
    other.channel.send(Kind.DONE, 1, b'{"notes": ["n"]}')
    assert parse(Claims, other.ask(), "report").notes == ("n",)
    other.channel.send(Kind.DONE, 2, b"{}")
    assert other.ask().body == b"{}"


@pytest.mark.parametrize(
    ("kind", "sequence"), [(Kind.DONE, 0), (Kind.DONE, 2), (Kind.OUTPUT, 1), (Kind.READY, 1)]
)
def test_frames_out_of_turn_are_forgeries(other, kind, sequence):
    other.channel.send(kind, sequence, b"{}")
    with pytest.raises(PeerForged) as caught:
        other.ask()
    assert caught.value.handle == 7


def test_a_surplus_answer_is_a_forgery(other):
    other.channel.send(Kind.DONE, 1, b"{}")
    other.ask()
    other.peer.expect_silence("report")
    other.channel.send(Kind.DONE, 1, b"{}")
    with pytest.raises(PeerForged):
        other.peer.expect_silence("report")


@pytest.mark.parametrize(
    "data",
    [
        b"x" * _HEADER.size,
        _HEADER.pack(b"KGF1", 200, 0, 0, 1),
        _HEADER.pack(b"KGF1", Kind.DONE, 0, 1 << 31, 1),
        _HEADER.pack(b"KGF1", Kind.DONE, 3, 0, 1),
    ],
)
def test_bytes_that_are_no_frame_are_garbage(other, data):
    other.sock.sendall(data)
    with pytest.raises(PeerGarbled):
        other.ask()


def test_descriptors_with_an_answer_are_refused_and_closed(other):
    before = len(os.listdir("/proc/self/fd"))
    other.channel.send(Kind.DONE, 1, b"{}", [0])
    with pytest.raises(PeerGarbled):
        other.ask()
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("body", [b"[1]", b"{", b'{"unknown": 1}', b'{"notes": 3}', b"\xff"])
def test_malformed_bodies_are_garbage(other, body):
    other.channel.send(Kind.DONE, 1, body)
    frame = other.ask()
    with pytest.raises(PeerGarbled):
        parse(Claims, frame, "report")


def test_failures_carry_what_was_said(other):
    other.channel.send(Kind.FAILED, 1, b'{"type": "ValueError", "message": "no", "line": 3}')
    with pytest.raises(PeerFailed) as caught:
        other.ask()
    assert caught.value.failed.line == 3
    assert caught.value.stage == "forward"


def test_silence_ends_at_the_limit_and_at_the_budget(other):
    with pytest.raises(PeerLate):
        other.ask(limit_s=0.05)
    other.peer.budget_s = other.peer.waited_s + 0.05
    started = time.monotonic()
    with pytest.raises(PeerLate):
        other.ask(limit_s=1000.0)
    assert time.monotonic() - started < 100


def test_half_a_frame_is_late_not_awaited_for_ever(other):
    other.sock.sendall(_HEADER.pack(b"KGF1", Kind.DONE, 0, 100, 1) + b"{")
    with pytest.raises(PeerLate):
        other.ask(limit_s=0.05)


def test_a_closed_channel_is_noticed(other):
    other.sock.shutdown(socket.SHUT_RDWR)
    with pytest.raises(PeerGone):
        other.ask()


def test_evidence_is_drained_while_waiting(other):
    """More than a pipe holds: a writer that blocks would never answer."""
    record = Record(Event.LAUNCH, 1, "kernel", own=True).pack()

    def flood() -> None:
        for _ in range(2000):
            os.write(other.evidence, record)
        other.channel.send(Kind.DONE, 1, b"{}")

    writer = threading.Thread(target=flood)
    writer.start()
    other.ask(limit_s=60.0)
    writer.join()
    records = other.peer.records()
    assert len(records) == 2000
    assert records[0].own
    assert not other.peer.flooded


def test_a_flood_of_evidence_is_kept_within_a_cap(other, monkeypatch):
    monkeypatch.setattr("kernelgym.sandbox.evidence.MAX_DRAIN_BYTES", 1 << 10)
    for _ in range(200):
        os.write(other.evidence, Record(Event.LAUNCH, 1, "kernel").pack())
        other.peer.evidence.drain()
    assert other.peer.flooded
    assert len(other.peer.records()) < 20
