"""Who has the device during which part of an evaluation, by real locks."""

import socket
import threading
import time
from types import SimpleNamespace

import pytest

from kernelgym.judge import turns as turns_module
from kernelgym.judge.gate import Gate, GateTimeout, State, open_description
from kernelgym.judge.link import Spawned
from kernelgym.judge.peer import Peer, PeerForged, PeerLate
from kernelgym.judge.turns import Turns
from kernelgym.sandbox.frames import Channel, Kind


@pytest.fixture
def gates(tmp_path):
    path = str(tmp_path / "gpu0.gate")
    return Gate(open_description(path)), Gate(open_description(path), wait_limit_s=0.01)


@pytest.fixture
def said():
    return []


@pytest.fixture
def turns(gates, said):
    return Turns(gates[0], lambda stage, _limit_s: said.append(stage))


def refuses(gate, *, alone):
    with pytest.raises(GateTimeout):
        gate.acquire(alone=alone)
    return True


def test_timed_calls_are_alone_untimed_ones_are_not(gates, turns, said):
    gate, other = gates
    with turns.held(alone=False):
        other.acquire(alone=False)
        other.release()
        with turns.alone("measure"):
            assert gate.state is State.ALONE
            assert refuses(other, alone=False)
        other.acquire(alone=False)
        other.release()
        assert refuses(other, alone=True)
    assert gate.state is State.FREE
    assert said == ["measure", "measure"]


def test_a_heavy_task_is_alone_throughout(gates, turns, said):
    gate, other = gates
    with turns.held(alone=True):
        turns.step_aside("trial")
        assert refuses(other, alone=False)
        with turns.alone("measure"):
            assert refuses(other, alone=False)
        assert gate.state is State.ALONE
    assert said == ["trial", "measure"]


def test_an_error_in_timed_calls_leaves_it_as_it_was(gates, turns):
    with turns.held(alone=False):
        with pytest.raises(ValueError, match="no"), turns.alone("measure"):
            raise ValueError("no")
        assert gates[0].state is State.SHARED
    with gates[1].held():
        pass


def test_waiting_is_said(gates, turns, said):
    with turns.held(alone=False):
        turns.step_aside("trial")
    assert said == ["trial"]
    said.clear()
    gates[1].acquire()
    timer = threading.Timer(0.05, gates[1].release)
    timer.start()
    with turns.held(alone=False):
        pass
    timer.join()
    assert said == ["gate"]


def test_what_we_queued_is_over_before_anybody_else_gets_it(gates):
    settled = []
    turns = Turns(gates[0], lambda _stage, _limit_s: None, lambda: settled.append(gates[0].state))
    with turns.held(alone=False):
        turns.step_aside("trial")
        with turns.alone("measure"):
            pass
    assert settled == [State.SHARED, State.SHARED, State.ALONE, State.SHARED]


def waited_enough(gate, _turns):
    gate.waited_s = turns_module.ENOUGH_S + 0.1


def calls_are_long(gate, turns):
    for _ in range(turns_module.LONG_CALLS):
        assert gate.state is not State.ALONE
        turns.step_aside("trial")
        with turns.weighed():
            time.sleep(turns_module.LONG_CALL_S + 0.01)


@pytest.mark.parametrize("happens", [waited_enough, calls_are_long])
@pytest.mark.parametrize("where", ["between calls", "in timed calls"])
def test_from_then_on_it_is_alone_to_its_end(gates, turns, happens, where):
    """Beside heavy tasks it would wait at every call; beside its long calls others would."""
    gate, other = gates
    with turns.held(alone=False):
        happens(gate, turns)
        assert gate.state is State.SHARED
        if where == "between calls":
            turns.step_aside("trial")
        else:
            with turns.alone("measure"):
                pass
        for _ in range(2):
            assert gate.state is State.ALONE
            assert refuses(other, alone=False)
            turns.step_aside("trial")
            with turns.alone("measure"):
                pass
    assert gate.state is State.FREE
    with other.held():
        pass


def test_compiling_and_waiting_make_no_call_long(gates, turns, monkeypatch):
    monkeypatch.setattr(turns_module, "LONG_CALLS", 1)
    gate, other = gates
    with turns.held(alone=False):
        with turns.weighed():
            turns.lend(False)
            time.sleep(turns_module.LONG_CALL_S)
            other.acquire()
            timer = threading.Timer(turns_module.LONG_CALL_S, other.release)
            timer.start()
            turns.lend(True)
            timer.join()
        turns.step_aside("trial")
        assert gate.state is State.SHARED


def test_compiling_out_of_turn_is_a_breach(turns):
    turns.lend(False)  # while it is being prepared
    with turns.held(alone=False):
        turns.lend(False)
        with pytest.raises(PeerForged):
            turns.lend(False)


@pytest.fixture
def peer(turns):
    """A candidate's channel, and the judge's end of it with the real gate behind."""
    ours, theirs = socket.socketpair()
    message = {"handle": 1, "level": "L1", "missing": []}
    made = Peer(Spawned(message, [ours.detach()]), budget_s=5.0, gate=turns.lend)
    candidate = Channel(theirs)
    yield SimpleNamespace(judge=made, candidate=candidate)
    made.close()
    candidate.close()


@pytest.mark.parametrize("kind", [Kind.OUTPUT, Kind.FAILED, Kind.COMPILING])
@pytest.mark.parametrize("alone", [True, False])
def test_an_answer_while_lent_is_a_forgery(turns, peer, kind, alone):
    """Else the device would stay lent, and timed calls would run beside those of others."""
    with turns.held(alone=alone):
        sequence = peer.judge.send("forward", Kind.CALL)
        peer.candidate.send(Kind.COMPILING, sequence)
        peer.candidate.send(kind, sequence, b"{}")
        with pytest.raises(PeerForged):
            peer.judge.answer("forward", Kind.CALL, sequence, limit_s=5)


@pytest.mark.parametrize("shared", [True, False])
def test_compiling_in_a_timed_call_takes_no_time_of_its_bracket(gates, turns, peer, shared):
    gate, other = gates

    def candidate(sequence):
        peer.candidate.send(Kind.COMPILING, sequence)
        time.sleep(0.2)  # ten times what a bracket may take to be queued
        peer.candidate.send(Kind.COMPILED, sequence)
        while peer.candidate.receive(limit=0).kind is not Kind.GO:
            pass
        peer.candidate.send(Kind.ARMED, sequence)
        peer.candidate.send(Kind.TIMED, sequence, b"{}")

    with turns.held(alone=not shared):
        with turns.alone("measure"):
            sequence = peer.judge.send("measure", Kind.TIME)
            thread = threading.Thread(target=candidate, args=(sequence,))
            thread.start()
            assert peer.judge.armed("measure", sequence, limit_s=0.02)
            assert gate.state is State.ALONE
            assert refuses(other, alone=False)
        assert peer.judge.answer("measure", Kind.TIME, sequence, limit_s=5).kind is Kind.TIMED
        thread.join()
    assert peer.judge.waited_s > 0.05  # of the candidate's budget


def test_compiling_without_end_takes_the_budget_and_ends(turns, peer):
    peer.judge.budget_s = 0.1
    with turns.held(alone=True):
        sequence = peer.judge.send("measure", Kind.TIME)
        peer.candidate.send(Kind.COMPILING, sequence)
        with pytest.raises(PeerLate):
            peer.judge.armed("measure", sequence, limit_s=0.02)


def test_what_compiles_while_it_is_prepared_may_go_on(turns, peer):
    sequence = peer.judge.send("load", Kind.LOAD)
    peer.candidate.send(Kind.COMPILING, sequence)
    peer.candidate.send(Kind.DONE, sequence, b"{}")
    assert peer.judge.answer("load", Kind.LOAD, sequence, limit_s=5).kind is Kind.DONE


def test_without_a_gpu_nobody_waits(said):
    turns = Turns(None, lambda stage, _limit_s: said.append(stage))
    with turns.held(alone=True), turns.alone("measure"):
        turns.step_aside("trial")
    assert said == ["measure", "trial"]
