"""Armed brackets of a candidate, one or several queued together, on two stand-in drivers.

Times mean nothing here; order and checks do.
"""

import threading
import time

import pytest
from cuda_candidate import ahead, honest, raises, waits, wrong

from kernelgym.judge import volley
from kernelgym.judge.measure import GpuMeasurement
from kernelgym.judge.peer import PeerFailed, PeerGone, PeerLate
from kernelgym.sandbox import calling


def shoot(case, calls, **options):
    """One bracket in eval mode, its answers compared."""
    shot = case.timer.shoot("eval", calls, **options)
    case.timer.catch_up()
    return shot


def test_an_honest_bracket(world):
    case = world.start(honest)
    volley.prepare(world.deck, case.candidate.peer)
    shot = shoot(case, 2)
    assert shot.wrong is None
    assert not shot.void
    assert shot.bracket.calls == 2
    assert shot.bracket.body_us > 0
    request = case.candidate.requests[-1]
    assert len({call.seed for call in request.brackets[0]}) == 2
    assert request.brackets[0][0].tensors[0].offset != request.brackets[0][1].tensors[0].offset
    assert request.brackets[0][0].output_offset != request.brackets[0][1].output_offset


def test_inputs_are_not_there_when_the_call_is_queued(world):
    case = world.start(ahead)
    volley.prepare(world.deck, case.candidate.peer)
    assert shoot(case, 1).wrong.status == "value_mismatch"
    assert shoot(case, 1, park=False).wrong is None  # the flag was up, they were there


def test_a_wrong_timed_call_is_a_failed_trial(world):
    case = world.start(wrong)
    measurement = GpuMeasurement(("eval",), 4)
    measurement.before(world.task)
    measurement.prepare(case.candidate.peer)
    measurement.run(case.correctness)
    (trial,) = case.dossier.trials
    assert (trial.passed, trial.status, trial.mode) == (False, "value_mismatch", "eval")
    assert "timed call" in trial.detail
    assert measurement.after(world.task).timings == ()


def test_a_call_that_waits_for_the_device_is_late_and_right(world):
    case = world.start(waits)
    volley.prepare(world.deck, case.candidate.peer)
    shot = shoot(case, 1)
    assert shot.bracket.late
    assert shot.wrong is None


def test_outputs_that_come_after_the_last_mark_are_wrong(world, monkeypatch):
    case = world.start(honest)
    volley.prepare(world.deck, case.candidate.peer)
    slow = []

    def later(target, value):
        def copy():
            time.sleep(0.3)
            target.copy_(value)

        slow.append(threading.Thread(target=copy))
        case.candidate.driver.enqueue(slow[-1].start)
        return True

    monkeypatch.setattr(calling, "_copied", later)
    original = case.candidate.timing._driver.call

    def call(name, *arguments):
        value = original(name, *arguments)
        if name == "cuCtxSynchronize":  # the stream has run: every copy has been started
            for thread in slow:
                thread.join()
        return value

    monkeypatch.setattr(case.candidate.timing._driver, "call", call)
    assert shoot(case, 1).wrong.status == "late_output"


def test_the_last_call_is_copied_first(world, monkeypatch):
    """Else what it still does on another stream would be done while the others are copied."""
    case, copied = world.start(honest), []
    volley.prepare(world.deck, case.candidate.peer)
    original = calling._copied

    def noted(target, value):
        copied.append(target.data_ptr())
        return original(target, value)

    monkeypatch.setattr(calling, "_copied", noted)
    assert shoot(case, 3).wrong is None  # and answers are still told in the order of the calls
    assert copied == sorted(copied, reverse=True)
    assert len(set(copied)) == 3


@pytest.mark.parametrize("slow", ["before", "after"])
def test_a_slow_canary_voids_the_bracket(world, monkeypatch, slow):
    case = world.start(honest)
    volley.prepare(world.deck, case.candidate.peer)
    monkeypatch.setattr(volley, "QUIET_US", 150.0)
    world.deck.after_limit_us = 300.0
    times = iter([164.0, *([2400.0, 20.0] if slow == "before" else [20.0, 2400.0])])
    monkeypatch.setattr(type(world.deck), "canary_us", lambda self: next(times))
    shot = case.timer.shoot("eval", 1)
    assert shot.void == f"a slow canary {slow} the call"


def test_marks_that_never_come_end_the_volley_at_once(world, monkeypatch):
    """Whoever holds up the device runs out of time; the judge does not wait bracket by bracket."""
    gone = threading.Event()

    def holds(candidate, x):
        candidate.driver.enqueue(lambda: gone.wait(20) and None)
        return honest(candidate, x)

    case = world.start(holds)
    volley.prepare(world.deck, case.candidate.peer)
    monkeypatch.setattr(volley, "MARK_LIMIT_S", 0.2)
    monkeypatch.setattr(volley, "ANSWER_LIMIT_S", 0.5)
    watched = []
    original = case.timer._watch
    monkeypatch.setattr(
        case.timer, "_watch", lambda value: watched.append(value) or original(value)
    )
    with pytest.raises(PeerLate):
        case.timer.volley("eval", 1, 4)
    gone.set()
    assert len(watched) == 1


def test_an_exception_and_a_dead_candidate_end_the_stage_at_once(world, monkeypatch):
    case = world.start(raises)
    volley.prepare(world.deck, case.candidate.peer)
    with pytest.raises(PeerFailed, match="no"):
        case.timer.shoot("eval", 1)
    monkeypatch.setattr(volley, "MARK_LIMIT_S", 30.0)
    dying = world.start(lambda candidate, x: candidate.channel.close())
    volley.prepare(world.deck, dying.candidate.peer)
    started = time.monotonic()
    with pytest.raises(PeerGone):
        dying.timer.shoot("eval", 1)
    assert time.monotonic() - started < 20


def test_a_volley_is_queued_at_once_and_judged_one_by_one(world):
    case = world.start(honest)
    volley.prepare(world.deck, case.candidate.peer)
    shots = case.timer.volley("eval", 2, 3)
    case.timer.catch_up()
    assert [shot.wrong for shot in shots] == [None] * 3
    assert all(shot.bracket.calls == 2 and not shot.void for shot in shots)
    (request,) = [one for one in case.candidate.requests if len(one.brackets) == 3]
    places = [call.output_offset for call in request.brackets[0]]
    assert [[call.output_offset for call in calls] for calls in request.brackets] == [places] * 3
    assert len({call.seed for calls in request.brackets for call in calls}) == 6


def test_warm_up_repeats_its_inputs_and_timed_calls_do_not(world):
    case = world.start(honest)
    volley.prepare(world.deck, case.candidate.peer)
    world.task.study.stateless["eval"] = True
    for _ in range(2):
        case.timer.warm_up("eval", 1, park=False)
    case.timer.warm_up("eval", 2, park=True)
    for _ in range(2):
        case.timer.shoot("eval", 1)
    case.timer.catch_up()
    assert case.timer.wrong is None
    seeds = [[call.seed for call in request.brackets[0]] for request in case.candidate.requests]
    warm, timed = seeds[:3], seeds[3:]
    assert len({seed for calls in warm for seed in calls}) == 1
    assert len({warm[0][0], timed[0][0], timed[1][0]}) == 3
    volley.CandidateClock(world.deck, case.correctness).shoot("eval", 1)  # nor for another clock
    assert case.candidate.requests[-1].brackets[0][0].seed not in {
        warm[0][0],
        timed[0][0],
        timed[1][0],
    }
    world.task.study.stateless["eval"] = False
    first, second = (case.timer.warm_up("eval", 1, park=True) for _ in range(2))
    assert first is not second
    assert len({request.brackets[0][0].seed for request in case.candidate.requests[-2:]}) == 2


def test_the_one_wrong_answer_of_a_volley_is_found(world):
    calls = []

    def sometimes(candidate, x):
        calls.append(1)
        return wrong(candidate, x) if len(calls) == 2 else honest(candidate, x)

    case = world.start(sometimes)
    volley.prepare(world.deck, case.candidate.peer)
    shots = case.timer.volley("eval", 1, 4)
    case.timer.catch_up()
    assert [shot.wrong and shot.wrong.status for shot in shots] == [
        None,
        "value_mismatch",
        None,
        None,
    ]


def test_a_candidate_that_waits_inside_a_volley_is_late_every_time(world):
    case = world.start(waits)
    volley.prepare(world.deck, case.candidate.peer)
    shots = case.timer.volley("eval", 1, 2)
    case.timer.catch_up()
    assert [(shot.bracket.late, shot.wrong) for shot in shots] == [(True, None)] * 2
