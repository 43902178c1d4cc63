"""The gate: its states, and real processes that fight for it and die with it."""

import contextlib
import multiprocessing
import os
import signal
import threading
import time

import pytest

from kernelgym.judge import gate as gate_module
from kernelgym.judge.gate import (
    SHARING,
    Gate,
    GateMisuse,
    GateTimeout,
    State,
    open_description,
)


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "gpu0.gate")


def test_states(path):
    gate = Gate(open_description(path))
    other = Gate(open_description(path), wait_limit_s=0.01)
    gate.acquire()
    assert gate.state is State.ALONE
    with pytest.raises(GateTimeout):
        other.acquire()
    gate.compiling()
    assert gate.state is State.LENT
    other.acquire()
    other.release()
    gate.compiled()
    assert gate.state is State.ALONE
    gate.release()
    gate.release()
    assert gate.state is State.FREE
    assert gate.loans == 1
    assert gate.held_s > 0


@pytest.mark.parametrize("steps", [["compiling"], ["compiled"], ["acquire", "acquire"],
                                   ["acquire", "compiled"], ["acquire", "compiling", "compiling"],
                                   ["acquire", "compiling", "acquire"]])  # fmt: skip
def test_steps_out_of_turn_are_refused(path, steps):
    gate = Gate(open_description(path))
    with pytest.raises(GateMisuse):
        for step in steps:
            getattr(gate, step)()
    gate.release()
    assert gate.state is State.FREE


def test_endless_compiling_is_refused(path, monkeypatch):
    monkeypatch.setattr(gate_module, "MAX_LOANS", 3)
    gate = Gate(open_description(path))
    gate.acquire()
    for _ in range(3):
        gate.compiling()
        gate.compiled()
    with pytest.raises(GateMisuse, match="more than 3"):
        gate.compiling()


def test_a_block_gives_it_back_however_it_ends(path):
    gate, other = Gate(open_description(path)), Gate(open_description(path), wait_limit_s=0.01)
    with contextlib.suppress(RuntimeError), gate.held():
        raise RuntimeError
    with other.held():
        pass
    with gate.held():
        gate.compiling()  # the candidate dies while it compiles
    assert gate.state is State.FREE
    with other.held():
        pass


def test_without_a_gpu_there_is_nothing_to_wait_for():
    with Gate(None).held():
        pass


def test_those_who_share_are_together_and_never_beside_one_alone(path):
    first, second = Gate(open_description(path)), Gate(open_description(path))
    alone = Gate(open_description(path), wait_limit_s=0.01)
    first.acquire(alone=False)
    second.acquire(alone=False)
    assert first.state is second.state is State.SHARED
    with pytest.raises(GateTimeout):
        alone.acquire()
    first.release()
    with pytest.raises(GateTimeout):
        alone.acquire()
    second.release()
    with alone.held():
        late = Gate(open_description(path), wait_limit_s=0.01)
        with pytest.raises(GateTimeout):
            late.acquire(alone=False)
    assert first.held_s == 0
    assert first.shared_s > 0


def test_only_a_few_share_at_a_time(path):
    gates = [Gate(open_description(path), wait_limit_s=0.01) for _ in range(SHARING + 1)]
    for gate in gates[:-1]:
        gate.acquire(alone=False)
    with pytest.raises(GateTimeout):
        gates[-1].acquire(alone=False)
    gates[0].release()
    gates[-1].acquire(alone=False)
    for gate in gates:
        gate.release()
    with gates[0].held():
        pass


def test_a_loan_is_given_back_as_it_was_taken(path):
    gate, other = Gate(open_description(path)), Gate(open_description(path), wait_limit_s=0.01)
    gate.acquire(alone=False)
    gate.compiling()
    with other.held():
        pass
    gate.compiled()
    assert gate.state is State.SHARED
    other.acquire(alone=False)
    gate.release()


def test_stepping_aside_lets_one_in_who_wants_to_be_alone(path):
    """He has been waiting while others kept coming and going: nobody passes him."""
    busy = [Gate(open_description(path)) for _ in range(2)]
    order, waits = [], []
    for gate in busy:
        gate.acquire(alone=False)

    def wait():
        with Gate(open_description(path)).held():
            order.append("alone")

    waiter = threading.Thread(target=wait)
    waiter.start()
    late = Gate(open_description(path), wait_limit_s=0.005)
    while True:  # until he stands at the turn
        try:
            late.acquire(alone=False)
        except GateTimeout:
            break
        late.release()
    busy[1].release()
    busy[0].step_aside(lambda: waits.append(1))
    order.append("shared")
    waiter.join(10)
    assert order == ["alone", "shared"]
    assert waits == [1]
    assert busy[0].state is State.SHARED


def test_stepping_aside_alone_or_outside_is_nothing(path):
    gate, other = Gate(open_description(path)), Gate(open_description(path), wait_limit_s=0.01)
    gate.step_aside()
    assert gate.state is State.FREE
    with gate.held():
        gate.step_aside()
        with pytest.raises(GateTimeout):
            other.acquire(alone=False)


def test_all_waits_of_an_evaluation_together_are_bounded(path):
    gate, other = Gate(open_description(path), wait_limit_s=0.1), Gate(open_description(path))
    for _ in range(2):
        other.acquire()
        timer = threading.Timer(0.06, other.release)
        timer.start()
        with contextlib.suppress(GateTimeout), gate.held():
            pass
        timer.join()
    assert 0.1 <= gate.waited_s < 0.2
    with other.held(), pytest.raises(GateTimeout):
        gate.acquire()
    with gate.held():  # a free device needs no wait
        pass
    gate.begin()
    assert gate.waited_s == gate.lent_s == gate.loans == 0


def test_who_has_waited_for_long_keeps_it_while_compiling(path):
    gate, other = Gate(open_description(path)), Gate(open_description(path), wait_limit_s=0.01)
    gate.waited_s = gate_module.LENDS_S + 1
    for ends in (gate.compiled, gate.release):
        gate.acquire()
        held_s = gate.held_s
        gate.compiling()
        assert gate.state is State.LENT
        with pytest.raises(GateTimeout):
            other.acquire()
        time.sleep(0.002)
        ends()
        gate.release()
        assert gate.state is State.FREE
        assert gate.held_s > held_s + 0.001
        with other.held():
            pass


def _hold(path, ready, how):
    gate = Gate(open_description(path))
    gate.acquire(alone=how != "kill shared")
    ready.set()
    if how == "exit":
        os._exit(3)
    if how == "lend":
        gate.compiling()
        ready.set()
    time.sleep(60)


@pytest.mark.parametrize("how", ["exit", "kill", "kill shared", "lend"])
def test_it_is_never_lost_when_its_holder_dies(path, how):
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    holder = context.Process(target=_hold, args=(path, ready, how), daemon=True)
    holder.start()
    assert ready.wait(60)
    gate = Gate(open_description(path), wait_limit_s=20)
    if how.startswith("kill"):
        with pytest.raises(GateTimeout):
            Gate(open_description(path), wait_limit_s=0.02).acquire()
        os.kill(holder.pid, signal.SIGKILL)
    with gate.held():
        pass
    holder.kill()
    holder.join()


def _count(path, counter, rounds):
    gate = Gate(open_description(path))
    for _ in range(rounds):
        with gate.held():
            with open(counter) as file:
                value = int(file.read())
            gate.compiling()
            gate.compiled()
            with open(counter) as file:
                value = int(file.read())
            time.sleep(0.0005)
            with open(counter, "w") as file:
                file.write(str(value + 1))


def test_only_one_process_is_inside_at_a_time(path, tmp_path):
    counter = tmp_path / "counter"
    counter.write_text("0")
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_count, args=(path, counter, 25)) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
        assert worker.exitcode == 0
    assert counter.read_text() == "75"


def test_a_waiter_gets_it_when_the_holder_lends_it(path):
    gate, order = Gate(open_description(path)), []
    gate.acquire()

    def wait():
        with Gate(open_description(path)).held():
            order.append("other")

    waiter = threading.Thread(target=wait)
    waiter.start()
    order.append("compile")
    gate.compiling()
    waiter.join(10)
    gate.compiled()
    order.append("on")
    gate.release()
    assert order == ["compile", "other", "on"]
