"""The measurement stage, judge and harness together, on two stand-in drivers.

The candidate runs in a thread. Its "kernels" are jobs on the stand-in's stream, so that they run
after the flag like real ones, and so do the copies of its outputs. Times mean nothing here; order,
checks and conclusions do.
"""

import contextlib
import functools
import os
import socket
import threading
import time
from types import SimpleNamespace

import pytest
import torch
from cuda_standin import StandInDriver

from kernelgym.cuda import device as gpu
from kernelgym.cuda.page import Slot
from kernelgym.judge import blocks, measure, volley
from kernelgym.judge import deck as deck_module
from kernelgym.judge.brackets import shoot_reference
from kernelgym.judge.clock import Bracket, Sampler
from kernelgym.judge.correctness import Correctness
from kernelgym.judge.dossier import Dossier, Measured
from kernelgym.judge.link import Spawned
from kernelgym.judge.measure import GpuMeasurement, NoMeasurement, slots_for, timed_modes
from kernelgym.judge.peer import Peer, PeerFailed, PeerGone, PeerLate
from kernelgym.judge.prepare import PreparedTask
from kernelgym.judge.stock import Stock
from kernelgym.judge.study import Study
from kernelgym.judge.volley import CandidateClock
from kernelgym.sandbox import calling, serving
from kernelgym.sandbox.clock_messages import Clock, Time
from kernelgym.sandbox.frames import Channel, Kind
from kernelgym.sandbox.messages import Claims, Failed
from kernelgym.sandbox.pool import HostPool, view
from kernelgym.sandbox.timing import Timing
from kernelgym.schema import Task
from kernelgym.schema import Timing as Times
from kernelgym.trace import profile as profile_module
from kernelgym.trace.cupti import CuptiUnavailable
from kernelgym.trace.recorder import Recorder

REFERENCE = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return x * 2 + 1
def get_inputs():
    return [torch.randn(64, 32)]
"""


def no_cupti():
    raise CuptiUnavailable("no CUPTI: this is a stand-in")


class FakeCandidate:
    """A harness around a forward of the test's choice, in a thread."""

    def __init__(self, forward, pools):
        ours, theirs = socket.socketpair()
        read, write = os.pipe()
        self.driver = StandInDriver()
        self.forward, self.pools, self.timing = forward, pools, None
        self.recorder = Recorder(write)
        self.channel = Channel(theirs)
        self.requests = []
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()
        message = {"handle": 1, "level": "none", "missing": []}
        self.peer = Peer(Spawned(message, [ours.detach(), read]), budget_s=60.0)
        self.write_end = write
        self.peer.await_ready()

    def _serve(self):
        handlers = {Kind.CLOCK: self._clock, Kind.TIME: self._time}
        serving.serve(self.channel, handlers, self._describe)

    @staticmethod
    def _describe(error):
        return Failed(type=type(error).__name__, message=str(error))

    def _clock(self, request):
        body = Clock.model_validate_json(request.body)
        self.timing = Timing(self.driver, body, request.fds[0], self.recorder, no_cupti)
        self.page = self.timing._bench.page
        return Kind.DONE, Claims(notes=tuple(self.timing.notes))

    def _time(self, request):
        body = Time.model_validate_json(request.body)
        self.requests.append(body)
        timed = self.timing.run(
            body,
            self.pools,
            lambda call, inputs: self.forward(self, *inputs),
            [],
            lambda: self.channel.send(Kind.ARMED, request.sequence),
        )
        return Kind.TIMED, timed

    def close(self):
        self.peer.close()
        if self.timing is not None:
            self.page.set(Slot.FLAG, self.page.read(Slot.FLAG) + 1000)
        self.thread.join(10)
        self.channel.close()
        self.driver.call("cuCtxSynchronize")
        os.close(self.write_end)


def honest(candidate, x):
    result = torch.empty_like(x)
    candidate.driver.enqueue(lambda: result.copy_(x * 2 + 1))
    return result


def wrong(candidate, x):
    result = torch.empty_like(x)
    candidate.driver.enqueue(lambda: result.copy_(x * 2 + 2))
    return result


def ahead(candidate, x):
    """Computes when it is called: before its inputs are there."""
    return x * 2 + 1


def waits(candidate, x):
    """Waits for the device in the middle, as ``.item()`` does."""
    candidate.driver.call("cuCtxSynchronize")
    return honest(candidate, x)


def raises(candidate, x):
    raise RuntimeError("no")


@pytest.fixture
def world(monkeypatch):
    """A prepared task, pools, the judge's deck; short blocks, patient canaries."""
    monkeypatch.setattr(deck_module, "QUIET_US", 1e9)
    monkeypatch.setattr(volley, "QUIET_US", 1e9)
    monkeypatch.setattr(blocks, "EMPTY_SHOTS", 2)
    monkeypatch.setattr(blocks, "BUDGET_S", 60.0)
    monkeypatch.setattr(blocks, "Sampler", functools.partial(Sampler, looks=(4,)))
    task = PreparedTask(
        Task(name="t", reference=REFERENCE), "fp32", device="cpu", limit_s=20, memory_bytes=1 << 30
    )
    pools = HostPool(1 << 20), HostPool(1 << 20)
    driver = StandInDriver()
    deck = deck_module.make(driver, gpu.activate(driver))
    deck.tracer, deck.no_tracer = None, "no CUPTI: this is a stand-in"
    deck.after_limit_us = 1e9
    monkeypatch.setattr(deck_module, "_DECK", [deck])
    made = []

    def start(forward):
        candidate = FakeCandidate(forward, (pools[0].flat, pools[1].flat))
        made.append(candidate)

        def queued(target, value):
            candidate.driver.enqueue(lambda: target.copy_(value))
            return True

        monkeypatch.setattr(calling, "_copied", queued)
        dossier = Dossier()
        correctness = Correctness(
            task, candidate.peer, pools, "standard", dossier, lambda _name: None
        )
        timer = CandidateClock(deck, correctness)
        return SimpleNamespace(
            candidate=candidate, timer=timer, correctness=correctness, dossier=dossier
        )

    yield SimpleNamespace(task=task, deck=deck, start=start, pools=pools)
    for candidate in made:
        candidate.close()
    deck.settle()
    deck.bench.close()


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
            time.sleep(0.02)
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


def test_a_whole_measurement(world):
    case = world.start(honest)
    measurement = GpuMeasurement(("eval", "train"), 4)
    measurement.before(world.task)
    measurement.prepare(case.candidate.peer)
    measurement.run(case.correctness)
    measured = measurement.after(world.task)
    assert [timing.mode for timing in measured.timings] == ["eval", "train"]
    for timing in measured.timings:
        assert timing.speedup_low <= timing.speedup <= timing.speedup_high
        assert len(timing.kernel_samples_ms) == 4
        assert len(timing.reference_samples_ms) == 8
        assert timing.clock in ("marks", "events")
    assert measured.coverage is None
    assert "no profiler" in measured.not_measured["coverage"]
    traced = [request for request in case.candidate.requests if request.trace]
    assert len(traced) == 2  # one a mode, at a place that the judge draws
    later = GpuMeasurement(("eval", "train"), 4)
    later.before(world.task)
    assert later._before["eval"] is world.task.kept["reference_blocks"]["eval"]


def block(body_us, kind=blocks.Block, **more):
    found = kind(calls=1, empty_us=3.0, tail_us=5.0, **more)
    found.brackets = [
        Bracket(1, 10.0, body_us + 3.0 + 0.01 * i, 5.0, body_us + 0.01 * i) for i in range(8)
    ]
    return found


def conclude(world, monkeypatch, before, candidate, after):
    measurement = GpuMeasurement(("eval",), 1)
    measurement._before["eval"] = before
    measurement._blocks["eval"] = candidate
    timer = SimpleNamespace(block=lambda slots, known, other: after)
    monkeypatch.setattr(measure, "ReferenceTimer", lambda *_: timer)
    return measurement, measurement.after(world.task)


def call_profile(generated, total):
    return profile_module.CallProfile((), total, generated, total, 3, 1, 1)


def test_speed_coverage_and_displaced(world, monkeypatch):
    before = block(200.0, profile=call_profile(0.0, 200.0))
    candidate = block(100.0, blocks.CandidateBlock, profile=call_profile(60.0, 100.0))
    measurement, measured = conclude(world, monkeypatch, before, candidate, block(200.5))
    (timing,) = measured.timings
    assert timing.speedup == pytest.approx(2.0, rel=0.01)
    assert timing.clock == "events"
    assert measured.coverage == pytest.approx(0.6)
    assert measured.displaced == pytest.approx(1 - 40 / 200)
    assert not measurement.again


def test_a_moving_reference_voids_and_a_great_speedup_is_doubted(world, monkeypatch):
    candidate = block(100.0, blocks.CandidateBlock)
    measurement, measured = conclude(world, monkeypatch, block(200.0), candidate, block(210.0))
    assert measurement.again.startswith("void")
    assert any(finding.id == "unsteady_reference" for finding in measured.findings)
    measurement, measured = conclude(world, monkeypatch, block(500.0), candidate, block(500.0))
    assert "above 3" in measurement.again
    measurement, measured = conclude(world, monkeypatch, block(100.5), candidate, block(100.5))
    assert [finding.id for finding in measured.findings] == ["equal_speed"]


def test_lies_of_the_events_take_both_sides_to_the_marks(world, monkeypatch):
    candidate = block(100.0, blocks.CandidateBlock)
    candidate.brackets = [
        Bracket(1, 10.0, b.body_us, 5.0, b.event_us / 10) for b in candidate.brackets
    ]
    _, measured = conclude(world, monkeypatch, block(200.0), candidate, block(200.0))
    (timing,) = measured.timings
    assert timing.clock == "marks"
    assert timing.speedup == pytest.approx(2.0, rel=0.01)


def test_what_inside_evidence_says_against_the_clock_is_a_finding(world, monkeypatch):
    doubtful = call_profile(1.0, 100.0)
    candidate = block(
        100.0, blocks.CandidateBlock, profile=doubtful, contradiction="records claim too much"
    )
    before = block(200.0, profile=call_profile(0.0, 200.0))
    _, measured = conclude(world, monkeypatch, before, candidate, block(200.0))
    assert {finding.id for finding in measured.findings} == {
        "profile_contradiction", "low_coverage",
    }  # fmt: skip


def test_modes_and_slots():
    study = Study(input_bytes=1 << 30, output_bytes=1)
    assert timed_modes("standard", study) == ("eval", "train")
    assert timed_modes("kernelbench", study) == ("train",)
    study.random_in_train = True
    assert timed_modes("strict", study) == ("eval",)
    assert slots_for("cuda", study) == 1
    assert slots_for("cuda", Study(input_bytes=1 << 26)) == 8
    assert slots_for("cpu", Study(input_bytes=1)) == 1


def test_on_a_cpu_there_is_a_reason_and_no_number():
    nothing = NoMeasurement()
    with contextlib.suppress(TypeError):
        nothing.before(None)
    assert nothing.after(None).not_measured["speedup"] == measure.NO_GPU


def test_a_reference_that_waits_for_the_device_does_not_hang_the_judge(world):
    room = torch.empty(4096, dtype=torch.uint8)

    def call(_index):
        world.deck.driver.call("cuCtxSynchronize")
        return [torch.ones(4)]

    bracket, records = shoot_reference(world.deck, 1, call, room)
    assert bracket.late
    assert records is None


def test_what_a_task_must_move_and_compute_beside_the_time_of_record():
    times = {"mode": "eval", "reference_ms": 4.0, "pairs": 8}
    ratio = {"speedup_low": 1.0, "speedup_high": 4.0}
    slow = Times(kernel_ms=2.0, speedup=2.0, **ratio, **times)
    fast = Times(kernel_ms=1.0, speedup=4.0, **ratio, **times)
    measured = Measured(timings=(fast, slow))
    study = Study(input_bytes=3_000, output_bytes=1_000, flops={"eval": 10_000})
    measure.roofline(measured, study, 4e6)
    assert (measured.min_bytes, measured.flops) == (4_000, 10_000)
    assert measured.flops_per_s == pytest.approx(5e6)
    assert measured.bandwidth_share == pytest.approx(0.5)


def test_launching_is_what_queueing_beforehand_saves():
    assert measure.launch_share(40.0, 30.0) == 0.25
    assert measure.launch_share(30.0, 40.0) == 0.0
    assert measure.launch_share(0.0, 40.0) is None


def test_what_a_candidate_says_of_empty_brackets_is_bounded(world, monkeypatch):
    case = world.start(honest)
    measurement = GpuMeasurement(("eval",), 4)
    measurement.before(world.task)
    measurement.prepare(case.candidate.peer)
    assert measurement.needs_calibration()
    measurement.calibrate(case.correctness)
    assert not measurement.needs_calibration()
    trusted = world.deck.trusted
    assert trusted.empty_us > 0
    assert trusted.lead_us > 0
    slow = [SimpleNamespace(bracket=Bracket(0, 5e3, 5e3, 5e3, 0.0), after_us=5e3)] * 2
    monkeypatch.setattr(case.timer, "shoot", lambda mode, calls: slow.pop())
    empty, lead = blocks._overhead(world.deck, case.timer, "eval")
    assert empty == pytest.approx(trusted.empty_us + 2.0)
    assert lead == pytest.approx(trusted.lead_us + 10.0)
    assert world.deck.after_limit_us == pytest.approx(
        trusted.after_us + 50.0 + deck_module.QUIET_US
    )


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


NORMALISED = """
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(4)
    def forward(self, x):
        return self.norm(x)
def get_inputs():
    return [torch.randn(16, 4) + 3]
"""


def test_running_statistics_do_not_reach_the_answers_of_timed_calls():
    task = PreparedTask(
        Task(name="t", reference=NORMALISED), "fp32", device="cpu", limit_s=20, memory_bytes=1 << 30
    )
    assert task.study.stateless == {"eval": True, "train": False}
    lived = task.fresh_model()
    for seed in range(20):  # training calls that only this candidate's reference has seen
        task.reference.call(lived, "train", task.reference.make_inputs(seed), 0)
    stock = Stock(task, lived, 1 << 40)
    prepared = stock.take("eval")
    private = torch.zeros(prepared.size, dtype=torch.uint8)
    for offset, part in prepared.parts:
        private[offset : offset + len(part)] = part
    (given,) = [view(private, layout) for layout in prepared.layouts]
    (expected,) = prepared.expected.tensors
    assert torch.allclose(expected, task.fresh_model().eval()(given), atol=1e-6)
    assert not torch.allclose(expected, lived.eval()(given), atol=0.1)


def test_buffers_are_restored_once_a_mode(world):
    case = world.start(honest)
    volley.prepare(world.deck, case.candidate.peer)
    for mode in ("eval", "eval", "train", "train"):
        case.timer.shoot(mode, 1)
    assert [request.restore for request in case.candidate.requests] == [True, False, True, False]
