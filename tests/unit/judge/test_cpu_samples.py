"""What pairs of timed calls on a CPU say, and when a candidate's clock is not believed."""

import pytest

from kernelgym.judge import cpu_measure
from kernelgym.judge.cpu_samples import Samples, conclude
from kernelgym.sandbox.cpu_timing import CpuTimed, KernelTime
from kernelgym.sandbox.messages import Output
from kernelgym.sandbox.outside_clock import TreeClock

PAIRS = 24


def pairs(**changes: object) -> Samples:
    """A candidate twice as fast as the reference, nine tenths of it in one kernel."""
    found = Samples(
        alone=2000.0,
        reference=[2000.0] * PAIRS,
        candidate=[1000.0] * PAIRS,
        shares=[0.9] * PAIRS,
        kernels=[KernelTime(name="k", own=True, launches=1, time_us=900.0)] * PAIRS,
        hidden=[300.0] * PAIRS,
        ours=[200.0] * PAIRS,
    )
    for name, value in changes.items():
        setattr(found, name, value)
    return found


def test_speedup_coverage_and_kernels_of_the_worse_mode():
    measured = conclude({"eval": pairs(), "train": pairs(shares=[0.4] * PAIRS)})
    assert [timing.speedup for timing in measured.timings] == [2.0, 2.0]
    assert measured.coverage == pytest.approx(0.4)
    assert [(k.name, k.calls, k.time_us) for k in measured.kernels] == [("k", 1, 900.0)] * 2
    assert set(measured.not_measured) == {"displaced"}


def test_a_reference_that_is_slowed_down_is_taken_as_it_was_alone():
    measured = conclude({"eval": pairs(reference=[4000.0] * PAIRS)})
    assert measured.timings[0].speedup == pytest.approx(2.0)
    assert [finding.id for finding in measured.findings] == ["unsteady_reference"]


def test_a_clock_that_hides_time_is_not_believed():
    measured = conclude({"eval": pairs(hidden=[20_000.0] * PAIRS)})
    assert measured.timings == ()
    assert measured.coverage is None
    assert "withheld" in measured.not_measured["speedup"]
    # A busy machine adds to what both sides take, and one quiet round is enough.
    busy = {"hidden": [20_000.0] * PAIRS, "ours": [15_000.0] * PAIRS}
    assert conclude({"eval": pairs(**busy)}).timings
    assert conclude({"eval": pairs(hidden=[*[20_000.0] * 7, 400.0])}).timings


def test_without_rounds_in_every_mode_nothing_is_said():
    assert conclude({"eval": pairs(), "train": Samples()}).timings == ()


def test_a_drift_that_slows_both_sides_cancels():
    drift = [1.0 + 0.1 * (number % 12) for number in range(PAIRS)]
    reference, candidate = [2000.0 * x for x in drift], [1000.0 * x for x in drift]
    timing = conclude({"eval": pairs(reference=reference, candidate=candidate, alone=3000.0)})
    assert timing.timings[0].speedup == pytest.approx(2.0)
    assert timing.timings[0].speedup_high - timing.timings[0].speedup_low < 0.01
    seen = timing.timings[0]
    assert seen.reference_ms / seen.kernel_ms == pytest.approx(seen.speedup)


def test_modes_that_do_not_differ_are_taken_together_and_others_are_not():
    noisy = [2000.0, 2300.0] * (PAIRS // 2)
    slower = [1900.0, 2200.0] * (PAIRS // 2)
    alike = conclude({"eval": pairs(reference=noisy), "train": pairs(reference=slower)}).timings
    assert alike[0].speedup == alike[1].speedup == pytest.approx(2.1)
    apart = [1000.0] * PAIRS
    differ = conclude({"eval": pairs(), "train": pairs(reference=apart, alone=1000.0)}).timings
    assert [timing.speedup for timing in differ] == [2.0, 1.0]


def test_pairs_are_added_with_their_kernels_and_shares():
    samples = Samples()
    output = Output(tree={"k": "none"}, tensors=())
    kernel = KernelTime(name="k", own=True, launches=2, time_us=80.0)
    for call_us, own_us in ((100.0, 80.0), (100.0, 120.0)):
        ours = CpuTimed(call_us=300.0, own_us=0.0, kernels=(), output=output)
        theirs = CpuTimed(call_us=call_us, own_us=own_us, kernels=(kernel,), output=output)
        samples.add(ours, theirs)
    assert samples.ratios == [3.0, 3.0]
    assert samples.shares == [0.8, 1.0]
    assert samples.kernels == [kernel, kernel]


@pytest.mark.parametrize(("alone_again", "speedup"), [(2000.0, 2.0), (1000.0, 1.0)])
def test_a_slow_reference_is_looked_at_again_without_the_candidate(
    monkeypatch, alone_again, speedup
):
    """The machine was in a better mood before; or the candidate did it."""
    looks = []

    def look(_task, modes):
        looks.append(modes)
        return dict.fromkeys(modes, alone_again)

    monkeypatch.setattr(cpu_measure, "_alone", look)
    measurement = cpu_measure.CpuMeasurement(("eval",))
    measurement._samples["eval"] = pairs(alone=1000.0)
    measured = measurement.after(None)
    assert measured.timings[0].speedup == pytest.approx(speedup)
    assert looks == [("eval",)] * (1 if speedup == 2.0 else cpu_measure.SECOND_LOOKS)


def outside(beside_us: float, reaped_us: float = 0.0, **changes: object) -> Samples:
    found = pairs(ours_beside=[800.0] * PAIRS, **changes)
    for _ in range(PAIRS):
        after = TreeClock(int((1000.0 + beside_us) * 1e3), int(reaped_us * 1e3))
        found.look_outside(TreeClock(0, 0), after, 1000.0)
    return found


def test_time_that_the_host_saw_beside_claims_is_charged():
    assert outside(1500.0).charge_us == 0.0
    samples = outside(2100.0)
    assert samples.charge_us == pytest.approx(400.0)
    measured = conclude({"eval": samples})
    assert measured.timings[0].speedup == pytest.approx(2000.0 / 1400.0)
    assert measured.timings[0].kernel_ms == pytest.approx(1.4)
    assert measured.coverage == pytest.approx(0.9 / 1.4)


def test_children_count_and_much_beside_a_claim_is_not_believed():
    assert outside(1300.0, reaped_us=800.0).charge_us == pytest.approx(400.0)
    measured = conclude({"eval": outside(2400.0)})
    assert measured.timings == ()
    assert [finding.id for finding in measured.findings] == ["profile_contradiction"]


def test_wall_time_bounds_only_where_the_host_cannot_tell():
    late = {"hidden": [20_000.0] * PAIRS}
    assert conclude({"eval": outside(1000.0, **late)}).timings
    blind = outside(1000.0, **late)
    blind.look_outside(None, None, 1000.0)
    assert blind.charge_us is None
    assert conclude({"eval": blind}).timings == ()


def test_further_launches_may_take_time_to_be_recorded_but_not_any_number():
    many = [KernelTime(name="k", own=True, launches=11, time_us=900.0)] * PAIRS
    assert outside(2700.0, kernels=many).charge_us == 0.0
    most = [KernelTime(name="k", own=True, launches=10_000, time_us=900.0)] * PAIRS
    assert outside(5000.0, kernels=most).charge_us == pytest.approx(1100.0)


def test_what_is_tolerated_beside_a_call_grows_slowly_with_what_the_reference_spends_there():
    beside = {"ours_beside": [3000.0] * PAIRS, "reaped": [0.0] * PAIRS}
    honest = pairs(beside=[3700.0] * PAIRS, **beside)
    assert honest.charge_us == 0.0
    assert pairs(beside=[5000.0] * PAIRS, **beside).charge_us == pytest.approx(800.0)
