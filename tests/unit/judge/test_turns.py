"""Who has the device during which part of an evaluation, by real locks."""

import threading

import pytest

from kernelgym.judge.gate import Gate, GateTimeout, State, open_description
from kernelgym.judge.peer import PeerForged
from kernelgym.judge.turns import Turns


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


def test_compiling_out_of_turn_is_a_breach(turns):
    turns.lend(False)  # while it is being prepared
    with turns.held(alone=False):
        turns.lend(False)
        with pytest.raises(PeerForged):
            turns.lend(False)


def test_without_a_gpu_nobody_waits(said):
    turns = Turns(None, lambda stage, _limit_s: said.append(stage))
    with turns.held(alone=True), turns.alone("measure"):
        turns.step_aside("trial")
    assert said == ["measure", "trial"]
