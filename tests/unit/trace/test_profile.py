"""Shares, coverage, displaced work, contradictions: on records made by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelgym.trace import profile as subject
from kernelgym.trace.attribution import Attributed
from kernelgym.trace.cupti_layout import Activity

TICK = Attributed(Activity("kernelgym_tick", 0, 1000, 1), False, "")


def record(name, start_us, end_us, own=False, how="launch", **more):
    activity = Activity(name, int(start_us * 1000), int(end_us * 1000), 1, **more)
    return Attributed(activity, own, how if own else "")


spans = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)).map(sorted), max_size=12)


@given(spans)
def test_shares_sum_to_the_time_in_which_anything_ran(found):
    found = [tuple(span) for span in found]
    covered = {point for start, end in found for point in range(start, end)}
    shares = subject.shared_times(found)
    assert sum(shares) == pytest.approx(len(covered))
    assert subject.busy_time(found) == len(covered)
    for (start, end), share in zip(found, shares, strict=True):
        by_hand = sum(1 / sum(s <= point < e for s, e in found) for point in range(start, end))
        assert share == pytest.approx(by_hand)


def test_a_fused_and_a_lazy_candidate():
    fused = subject.profile([TICK, record("mine", 2, 102, own=True)], 1)
    assert fused.coverage == 1.0
    lazy = subject.profile(
        [TICK, record("mine", 2, 3, own=True), record("gemm", 3, 1002), record("fill", 1002, 1003)],
        1,
    )
    assert lazy.coverage == pytest.approx(1 / 1001)
    assert [kernel.name for kernel in lazy.kernels] == ["gemm", "mine", "fill"]
    assert sum(kernel.share for kernel in lazy.kernels) == pytest.approx(1.0)


def test_overlap_is_split_so_that_a_padding_kernel_gains_only_half():
    found = subject.profile([TICK, record("gemm", 2, 102), record("pad", 2, 102, own=True)], 1)
    assert found.total_us == pytest.approx(100)
    assert found.coverage == pytest.approx(0.5)
    assert found.busy_us == pytest.approx(100)


def test_times_are_of_one_call():
    records = [TICK, *(record("mine", 10 * i, 10 * i + 5, own=True) for i in range(1, 5))]
    found = subject.profile(records, 2)
    assert found.total_us == pytest.approx(10)
    assert (found.kernels[0].calls, found.kernels[0].time_us) == (2, pytest.approx(10))
    assert found.direct_own == 4


def test_what_lies_before_the_canary_is_left_out():
    flush = record("fill", -500, 0)
    assert subject.profile([flush, TICK, record("mine", 2, 52, own=True)], 1).coverage == 1.0


def test_nobody_listening_is_none_never_zero():
    assert subject.profile([], 1) is None
    assert subject.profile([TICK], 1) is None
    assert subject.profile([record("mine", 0, 5, own=True)], 1) is None  # no canary
    assert subject.profile([TICK, record("mine", 0, 5, own=True)], 1, lost=True) is None


def test_a_kernel_named_like_the_canary_hides_nothing():
    disguised = [TICK, record("kernelgym_tick", 2, 52), record("mine", 52, 102, own=True)]
    assert subject.profile(disguised, 1).coverage == pytest.approx(0.5)
    own_tick = record("kernelgym_tick", 0, 1, own=True)
    assert subject.profile([own_tick, record("x", 2, 3)], 1) is None


def test_displaced_work_cannot_be_bought_with_wasted_time():
    honest = subject.profile([TICK, record("mine", 0, 50, own=True), record("gemm", 50, 90)], 1)
    padded = subject.profile([TICK, record("mine", 0, 500, own=True), record("gemm", 500, 540)], 1)
    assert padded.coverage > honest.coverage
    assert subject.displaced(honest, 100.0) == subject.displaced(padded, 100.0) == 0.6
    assert subject.displaced(honest, 20.0) == 0.0
    assert subject.displaced(honest, 0.0) is None


def test_the_sentence():
    assert subject.sentence(12.5, 50.0) == (
        "Custom kernel CUDA time: 12.50 us / Total time: 50.00 us, Coverage: 25.00%"
    )


@pytest.mark.parametrize(
    ("call_us", "launches", "text"),
    [(52.0, 1, None), (90.0, 1, "records explain 50.0 us"), (40.0, 1, "records claim"),
     (51.0, 0, "launches of own kernels")],
)  # fmt: skip
def test_what_the_judges_clock_says_against_a_profile(call_us, launches, text):
    found = subject.profile([TICK, record("mine", 2, 52, own=True)], 1)
    said = subject.contradiction(found, call_us, launches)
    assert (said is None) if text is None else (text in said)


def test_a_second_context_is_seen():
    found = subject.profile([TICK, record("a", 2, 3, context=1), record("b", 3, 4, context=2)], 1)
    assert found.contexts == 2
