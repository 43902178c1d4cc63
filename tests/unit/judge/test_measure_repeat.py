"""Repetitions: what a void sample and a number too good lead to."""

from types import SimpleNamespace

import pytest

from kernelgym.judge import repeat
from kernelgym.judge.dossier import Dossier, Measured
from kernelgym.schema import Timing, Trial


def timing(speedup):
    return Timing(
        mode="eval", reference_ms=speedup, kernel_ms=1.0, speedup=speedup, speedup_low=speedup,
        speedup_high=speedup, pairs=3,
    )  # fmt: skip


def dossier(speedup, coverage=0.9, passed=True):
    found = Dossier(trials=[Trial(index=0, mode="eval", passed=passed)])
    found.measured = Measured(timings=(timing(speedup),), coverage=coverage)
    return found


@pytest.fixture
def play(monkeypatch):
    def run(*plan):
        made = iter(plan)
        count = []

        def evaluation(*_):
            found, again = next(made)
            count.append(1)
            return SimpleNamespace(
                run=lambda: found, measurement=SimpleNamespace(again=again), modes="modes"
            )

        monkeypatch.setattr(repeat, "Evaluation", evaluation)
        return repeat.evaluate(None, None, None, None, None)[0], len(count)

    return run


def test_nothing_to_doubt_is_measured_once(play):
    found, count = play((dossier(1.4), ""))
    assert count == 1
    assert len(found.measured.timings) == 1


def test_a_void_sample_is_replaced(play):
    found, count = play((dossier(9.0), "void: moved"), (dossier(1.4), ""))
    assert count == 2
    assert [t.speedup for t in found.measured.timings] == [1.4]
    assert [finding.id for finding in found.measured.findings] == ["measured_again"]


def test_void_samples_end_somewhere(play):
    _, count = play(*[(dossier(1.0), "void: moved")] * 9)
    assert count == 1 + repeat.MAX_REPEATS


def test_a_number_too_good_is_kept_beside_the_second_one(play):
    found, count = play((dossier(4.0, 0.9), "above 3"), (dossier(3.8, 0.8), "above 3"))
    assert count == 2
    assert [t.speedup for t in found.measured.timings] == [4.0, 3.8]
    assert found.measured.coverage == 0.8
    assert [finding.id for finding in found.measured.findings] == ["measured_again"]


def test_a_second_look_that_fails_counts(play):
    found, _ = play((dossier(4.0), "above 3"), (dossier(3.8, passed=False), ""))
    assert not found.trials[0].passed
