"""Statistics of the clock: coverage by simulation, rules by example."""

import math
import random

import pytest

from kernelgym.judge import clock
from kernelgym.judge.clock import Bracket, Sampler, Sandwich


def noisy(rng, median, spread=0.02, outliers=0.02):
    value = median * math.exp(rng.gauss(0, spread))
    return value * rng.uniform(1.2, 4) if rng.random() < outliers else value


TRUE_MEDIAN = 1.000503
"""Of `noisy` with its defaults: two in a hundred samples lie far above."""


@pytest.mark.parametrize(("count", "low", "high"), [(6, 0, 5), (8, 0, 7), (10, 1, 8), (20, 5, 14)])
def test_order_statistics_match_the_tables(count, low, high):
    interval = clock.median_interval([float(i) for i in range(count)])
    assert (interval.low, interval.high) == (low, high)


def test_few_samples_give_their_extremes():
    assert clock.median_interval([3.0, 1.0, 2.0]) == clock.Interval(1.0, 2.0, 3.0)
    with pytest.raises(ValueError, match="no samples"):
        clock.median_interval([])


def run_sampler(rng, median, target=0.015):
    sampler = Sampler(target=target)
    while not sampler.enough():
        sampler.samples.append(noisy(rng, median))
    return sampler


def test_the_interval_of_the_median_covers_although_we_stop_when_it_is_narrow():
    rng = random.Random(7)
    hits, counts = 0, []
    for _ in range(1000):
        sampler = run_sampler(rng, 100.0)
        interval = sampler.interval()
        true = 100.0 * TRUE_MEDIAN
        hits += interval.low <= true <= interval.high
        counts.append(len(sampler.samples))
    assert hits >= 940
    assert set(counts) <= set(clock.LOOKS)
    assert len(set(counts)) > 1  # it does stop early sometimes, so the test means something


def test_the_interval_of_the_speedup_covers_its_value():
    rng = random.Random(8)
    hits = 0
    for _ in range(1000):
        blocks = [tuple(run_sampler(rng, median).samples) for median in (130.0, 100.0, 130.0)]
        ratio = Sandwich(*blocks).ratio()
        hits += ratio.low <= 1.3 <= ratio.high
    assert hits >= 950


def test_equal_processes_come_out_equal():
    rng = random.Random(9)
    equal = 0
    for _ in range(200):
        blocks = [tuple(noisy(rng, 50.0) for _ in range(64)) for _ in range(3)]
        equal += Sandwich(*blocks).ratio().equal
    assert equal >= 190


def test_brackets_of_ours_hide_nothing_behind_their_ends():
    body, events = 103.0, 101.0
    brackets = [Bracket(1, 10.0, body, 5.0 + 20 * (i % 2), events) for i in range(8)]
    assert clock.read(brackets, 3.0, 5.0).clock == "marks"
    assert clock.read(brackets, 3.0, 5.0, ours=True) == clock.Reading("events", (101.0,) * 8,
        clock.excess(brackets, 5.0))  # fmt: skip


def test_drift_voids_a_sample():
    calm = Sandwich((10.0, 10.0, 10.0), (5.0,) * 3, (10.05,) * 3)
    moved = Sandwich((10.0, 10.0, 10.0), (5.0,) * 3, (10.2,) * 3)
    assert not calm.void
    assert moved.void
    assert calm.ratio().value == pytest.approx(10.025 / 5.0)
    assert calm.ratio().high == pytest.approx(10.05 / 5.0)  # spans both blocks
    assert calm.ratio().low == pytest.approx(10.0 / 5.0)


def test_warm_up_ends_when_two_windows_agree_or_after_a_limit():
    sampler = Sampler()
    for value in (300.0, 200.0, 150.0, 101.0, 100.0):
        sampler.warm.append(value)
        assert not sampler.steady()
    sampler.warm += [100.0, 100.5, 100.2, 99.9]
    assert sampler.steady()
    restless = Sampler(warm=[float(2**i) for i in range(clock.WARM_LIMIT)])
    assert restless.steady()


def test_sampling_stops_at_the_last_look_whatever_the_noise():
    rng = random.Random(1)
    sampler = Sampler(target=0.0)
    while not sampler.enough():
        sampler.samples.append(rng.uniform(1, 2))
    assert len(sampler.samples) == clock.LOOKS[-1]


def test_big_and_impossible_numbers_are_looked_at_twice():
    assert clock.needs_second_look(2.9, 10, 5) is None
    assert "above 3" in clock.needs_second_look(3.1, 10, 5)
    assert "bandwidth" in clock.needs_second_look(1.1, 4, 5)
    assert clock.floor_us(5_000_000_000, 5e12) == pytest.approx(1000.0)
    assert clock.floor_us(10, 5e12, l2_bytes=20) == 0
    assert clock.floor_us(10, 0) == 0


def test_the_second_mode_need_only_be_like_the_first():
    samples = [100.0 + 2 * (i % 2) for i in range(8)]  # an interval of 1% on either side
    for target, other, done in ((0.02, 0.0, True), (0.006, 0.0, False), (0.006, 101.0, True)):
        sampler = Sampler(target=target, other_us=other, samples=list(samples))
        assert sampler.enough() is done
    assert not Sampler(target=0.006, other_us=103.0, samples=samples).enough()


@pytest.mark.parametrize(
    ("lead", "body", "charged"),
    [
        (150.0, 103.0, 100.0),  # honest
        (160.0, 103.0, 100.0),  # jitter
        (650.0, 3.0, 500.0),  # all of the work lies before the start mark
        (658.0, 0.0, 505.0),  # every mark was written at the end
        (-5.0, 103.0, 100.0),  # a start mark before the flag only makes the body longer
    ],
)
def test_work_in_the_lead_is_charged(lead, body, charged):
    bracket = Bracket(1, lead_us=lead, body_us=body, tail_us=5.0, event_us=0.0)
    assert bracket.outside_us(3.0, 5.0, lead_us=150.0) == pytest.approx(charged)


def test_a_late_mark_now_and_then_leaves_the_events_of_the_others():
    good = Bracket(1, lead_us=150.0, body_us=103.0, tail_us=5.0, event_us=101.0)
    odd = Bracket(1, lead_us=150.0, body_us=123.0, tail_us=5.0, event_us=101.0)
    tail = Bracket(1, lead_us=150.0, body_us=103.0, tail_us=50.0, event_us=101.0)
    assert clock.read([good] * 8 + [odd, tail], 3.0, 5.0) == clock.Reading("events", (101.0,) * 8)
    found = clock.read([good] * 7 + [odd, odd, tail], 3.0, 5.0)
    assert found.clock == "marks"
    assert sorted(found.samples_us) == [100.0] * 7 + [120.0] * 2 + [145.0]
    assert clock.read([odd] * 3, 3.0, 5.0).clock == "marks"


def test_events_claim_nothing_about_the_lead():
    bracket = Bracket(1, lead_us=300.0, body_us=103.0, tail_us=5.0, event_us=100.0)
    assert clock.read([bracket], 3.0, 5.0).clock == "events"
    charged = clock.read([bracket], 3.0, 5.0, lead_us=150.0)
    assert (charged.clock, charged.samples_us) == ("marks", (250.0,))


def test_calls_in_a_bracket():
    assert clock.calls_for(18.0, slots=8) == 4
    assert clock.calls_for(18.0, slots=8, extra=2) == 6
    assert clock.calls_for(10.0, slots=2, extra=2) == 2
    assert clock.calls_for(100.0, slots=8, extra=2) == 1
    assert clock.calls_for(0.0, slots=8) == 1


@pytest.mark.parametrize(
    ("changes", "believed"),
    [
        ({}, True),
        ({"event_us": 50.0}, False),  # marks say 100
        ({"late": True}, False),
        ({"lead_us": 900.0}, False),
        ({"body_us": 13.1, "event_us": 10.0}, False),  # too short for the marks
        ({"body_us": 403.1, "event_us": 399.0}, True),
    ],
)
def test_events_are_believed_only_when_the_marks_agree(changes, believed):
    fields = {"calls": 1, "lead_us": 10.0, "body_us": 103.1, "tail_us": 5.0, "event_us": 99.0}
    assert Bracket(**(fields | changes)).confirms_events(3.1) is believed


def test_work_behind_the_end_mark_is_charged():
    honest = Bracket(2, 10.0, 103.0, 20.0, 99.0)
    assert honest.outside_us(3.0, tail_us=18.0) == 50.0
    hiding = Bracket(2, 10.0, 43.0, 80.0, 39.0)
    assert hiding.outside_us(3.0, tail_us=20.0) == 50.0
    nothing = Bracket(1, 10.0, 2.9, 5.0, 0.0)
    assert nothing.outside_us(3.0, tail_us=5.0) == clock.SHORTEST_US


def test_one_doubtful_bracket_takes_the_whole_block_to_the_marks():
    good = Bracket(1, 10.0, 103.0, 5.0, 99.0)
    doubtful = Bracket(1, 10.0, 103.0, 5.0, 50.0)
    hiding = Bracket(1, 10.0, 103.0, 95.0, 99.0)
    assert clock.read([good, good], 3.0, 5.0) == clock.Reading("events", (99.0, 99.0))
    assert clock.read([good, doubtful], 3.0, 5.0) == clock.Reading("marks", (100.0, 100.0))
    assert clock.read([good, hiding], 3.0, 5.0) == clock.Reading("marks", (100.0, 190.0))


@pytest.mark.parametrize("events", [114.0, 80.0])
@pytest.mark.parametrize(("lead", "tail"), [(0.0, 7.0), (9.0, 0.0), (9.0, 7.0)])
def test_what_hides_in_the_jitter_of_every_bracket_is_charged(lead, tail, events):
    brackets = [Bracket(4, 150 + lead, 120.0, 30.0 + tail, events)] * 10
    honest = clock.read([Bracket(4, 150, 120.0, 30.0, events)] * 10, 4.0, 30.0, 150.0)
    found = clock.read(brackets, 4.0, 30.0, 150.0)
    assert found.clock == honest.clock
    assert found.excess == clock.Excess(lead, tail, lead + tail)
    assert found.samples_us[0] == pytest.approx(honest.samples_us[0] + (lead + tail) / 4)


def test_jitter_of_some_brackets_is_not():
    odd = Bracket(4, 158.0, 120.0, 37.0, 114.0)
    brackets = [Bracket(4, 150.0, 120.0, 30.0, 114.0)] * 7 + [odd] * 3
    assert clock.read(brackets, 4.0, 30.0, 150.0).excess.charged_us == 0
    assert clock.excess([], 30.0) == clock.Excess()
