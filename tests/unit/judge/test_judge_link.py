"""Messages between judge and host: order, descriptors, a host that is gone."""

import os
import socket

import pytest

from kernelgym.errors import SandboxError, TransportError
from kernelgym.judge.link import JudgeLink, pack


@pytest.fixture
def ends():
    ours, theirs = socket.socketpair()
    yield JudgeLink(ours), theirs
    ours.close()
    theirs.close()


def spawned(ticket: int) -> dict[str, object]:
    return {"type": "spawned", "ticket": ticket, "handle": 5, "level": "L1", "missing": ["x"]}


def test_answers_may_come_in_any_order_and_between_requests(ends):
    link, host = ends
    first, second = link.ask_spawn("candidate"), link.ask_spawn("compiler")
    read, write = os.pipe()
    socket.send_fds(host, [pack(spawned(second), 1)], [read])
    host.sendall(pack({"type": "evaluate"}))
    assert link.receive() == {"type": "evaluate"}  # the answer before it was put aside
    host.sendall(pack({"type": "refused", "ticket": first, "message": "no jail"}))
    with pytest.raises(SandboxError, match="no jail"):
        link.spawned(first)
    found = link.spawned(second)
    assert (found.handle, found.level, found.evidence_fd) == (5, "L1", None)
    for fd in (read, write, found.channel_fd):
        os.close(fd)


def test_an_end_is_told(ends):
    link, host = ends
    ticket = link.ask_kill(5, grace_s=0.1)
    ended = {"status": 9, "oom_killed": True, "peak_bytes": 3, "survivors": 0}
    host.sendall(pack({"type": "ended", "ticket": ticket, "ended": ended}))
    assert link.ended(ticket).oom_killed


def test_a_request_while_an_answer_is_due_breaks_the_protocol(ends):
    link, host = ends
    host.sendall(pack({"type": "evaluate"}))
    with pytest.raises(TransportError, match="out of turn"):
        link.ended(link.ask_kill(1))


def test_a_host_that_is_gone_is_noticed(ends):
    link, host = ends
    host.close()
    with pytest.raises(TransportError):
        link.receive()
