"""What rounds of timed calls on a CPU say, and when a candidate's clock is not believed."""

import pytest

from kernelgym.judge.cpu_samples import Samples, conclude
from kernelgym.sandbox.cpu_timing import KernelTime

ROUNDS = 8


def rounds(**changes: object) -> Samples:
    """A candidate twice as fast as the reference, nine tenths of it in one kernel."""
    found = Samples(
        alone=2000.0,
        reference=[2000.0] * ROUNDS,
        candidate=[1000.0] * ROUNDS,
        calls=[1000.0] * ROUNDS,
        shares=[0.9] * ROUNDS,
        kernels=[KernelTime(name="k", own=True, launches=1, time_us=900.0)] * ROUNDS,
        hidden=[300.0] * ROUNDS,
        ours=[200.0] * ROUNDS,
    )
    for name, value in changes.items():
        setattr(found, name, value)
    return found


def test_speedup_coverage_and_kernels_of_the_worse_mode():
    measured = conclude({"eval": rounds(), "train": rounds(shares=[0.4] * ROUNDS)})
    assert [timing.speedup for timing in measured.timings] == [2.0, 2.0]
    assert measured.coverage == pytest.approx(0.4)
    assert [(k.name, k.calls, k.time_us) for k in measured.kernels] == [("k", 1, 900.0)] * 2
    assert set(measured.not_measured) == {"displaced"}


def test_a_reference_that_is_slowed_down_is_taken_as_it_was_alone():
    measured = conclude({"eval": rounds(reference=[4000.0] * ROUNDS)})
    assert measured.timings[0].speedup == pytest.approx(2.0)
    assert [finding.id for finding in measured.findings] == ["unsteady_reference"]


def test_a_clock_that_hides_time_is_not_believed():
    measured = conclude({"eval": rounds(hidden=[20_000.0] * ROUNDS)})
    assert measured.timings == ()
    assert measured.coverage is None
    assert "withheld" in measured.not_measured["speedup"]
    # A busy machine adds to what both sides take, and one quiet round is enough.
    busy = {"hidden": [20_000.0] * ROUNDS, "ours": [15_000.0] * ROUNDS}
    assert conclude({"eval": rounds(**busy)}).timings
    assert conclude({"eval": rounds(hidden=[*[20_000.0] * 7, 400.0])}).timings


def test_without_rounds_in_every_mode_nothing_is_said():
    assert conclude({"eval": rounds(), "train": Samples()}).timings == ()
