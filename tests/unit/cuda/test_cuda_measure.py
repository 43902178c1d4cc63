"""The measurement stage, judge and harness together, on two stand-in drivers.

Times mean nothing here; order, checks and conclusions do. Single brackets: `test_cuda_brackets`.
"""

import contextlib
from types import SimpleNamespace

import pytest
import torch
from cuda_candidate import honest

from kernelgym.judge import blocks, measure, volley
from kernelgym.judge import deck as deck_module
from kernelgym.judge.brackets import shoot_reference
from kernelgym.judge.clock import Bracket
from kernelgym.judge.dossier import Measured
from kernelgym.judge.measure import GpuMeasurement, NoMeasurement, slots_for, timed_modes
from kernelgym.judge.prepare import PreparedTask
from kernelgym.judge.stock import Stock
from kernelgym.judge.study import Study
from kernelgym.sandbox.pool import view
from kernelgym.schema import Task
from kernelgym.schema import Timing as Times
from kernelgym.trace import profile as profile_module


def test_a_whole_measurement(world, monkeypatch):
    monkeypatch.setattr(measure, "FURTHER_LOOKS", 0)  # blocks of a stand-in are never alike
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


def conclude(world, monkeypatch, before, candidate, after, extend=lambda block: None):
    measurement = GpuMeasurement(("eval",), 1)
    measurement._before["eval"] = before
    measurement._blocks["eval"] = candidate
    timer = SimpleNamespace(block=lambda slots, known, other: after, extend=extend)
    monkeypatch.setattr(measure, "reference_timer", lambda *_: timer)
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


def test_few_brackets_that_seem_to_have_moved_are_looked_at_again(world, monkeypatch):
    looks = []

    def extend(after):
        looks.append(len(after.brackets))
        after.brackets += 2 * block(200.0).brackets

    candidate = block(100.0, blocks.CandidateBlock)
    measurement, measured = conclude(
        world, monkeypatch, block(200.0), candidate, block(203.0), extend
    )
    assert not measurement.again
    assert looks == [8]
    (timing,) = measured.timings
    assert len(timing.reference_samples_ms) == 8 + 24


def test_a_sandwich_has_one_clock(world, monkeypatch):
    """A block of the reference whose marks do not confirm its events takes all to the marks."""
    candidate, after = block(100.0, blocks.CandidateBlock), block(200.0)
    after.brackets = [Bracket(1, 10.0, b.body_us, 5.0, b.event_us * 0.9) for b in after.brackets]
    measurement, measured = conclude(world, monkeypatch, block(200.0), candidate, after)
    assert not measurement.again
    (timing,) = measured.timings
    assert timing.clock == "marks"
    assert timing.reference_ms == pytest.approx(0.2, rel=0.01)


def test_a_timer_is_kept_where_it_holds_little(world, monkeypatch):
    timer = blocks.reference_timer(world.deck, world.task, "eval")
    assert blocks.reference_timer(world.deck, world.task, "eval") is timer
    known = timer.block(2)
    count = len(known.brackets)
    timer.extend(known)
    assert len(known.brackets) == 2 * count
    monkeypatch.setattr(blocks, "KEPT_BYTES", 0)
    other = blocks.reference_timer(world.deck, world.task, "train")
    assert blocks.reference_timer(world.deck, world.task, "train") is not other


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


def test_empty_brackets_are_those_of_an_honest_harness(world):
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
    assert blocks._overhead(world.deck) == (trusted.empty_us, trusted.lead_us)
    assert world.deck.after_limit_us == trusted.after_us + deck_module.QUIET_US


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
    wide = Stock(task, lived, 1 << 40, task.oracle_model()).take("eval").expected
    assert wide.oracle[0].dtype == torch.float64
    assert torch.allclose(wide.oracle[0].float(), wide.tensors[0], atol=1e-5)


def test_buffers_are_restored_once_a_mode(world):
    case = world.start(honest)
    volley.prepare(world.deck, case.candidate.peer)
    for mode in ("eval", "eval", "train", "train"):
        case.timer.shoot(mode, 1)
    assert [request.restore for request in case.candidate.requests] == [True, False, True, False]
