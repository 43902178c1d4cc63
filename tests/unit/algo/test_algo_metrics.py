"""Metrics, intervals, flows between turns, and the turns kept in context."""

from __future__ import annotations

import enum
import math

import numpy as np
import pytest
import torch
from algo_forms import BOUNDED, load
from hypothesis import given
from hypothesis import strategies as st

from drkernel import algo

SPEEDUPS = load("metrics")["speedups"]


def test_the_last_turn_is_the_default():
    assert algo.fast_at_p(SPEEDUPS, 1.2) == algo.fast_at_p(SPEEDUPS, 1.2, turn=2)
    assert algo.correct_rate([[[1, 0]]]) == 0.0


def test_missing_turns_are_failures_not_smaller_denominators():
    assert algo.fast_at_p([[[None], [2.0]]], 1.0) == 0.5
    assert algo.fast_at_p([[[None, None], [2.0, None]]], 0, best_of=2) == 0.5
    assert algo.correct_rate([[[None], [True]]]) == 0.5


def test_correct_rate_reads_no_speedup():
    correct = [[[0, 1, 0], [1, 0, 0]], [[0, 0, 0], [0, 0, 1]]]
    assert algo.correct_rate(correct, turn=0) == 0.25
    assert algo.correct_rate(correct, best_of=2) == 0.5
    assert algo.correct_rate(torch.tensor(correct, dtype=torch.bool), best_of=3) == 0.75


@pytest.mark.parametrize("p", [0.9, 1.1, 1.2, 1.7])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_speedup_stored_narrowly_still_reaches_its_threshold(p, dtype):
    assert algo.fast_at_p(torch.tensor([[[p]]], dtype=dtype), p) == 1.0
    assert algo.fast_at_p(np.array([[[p]]], dtype=np.float32), p) == 1.0


def test_no_sample_is_not_a_rate():
    for empty in ([], np.zeros((0, 8, 3)), np.zeros((3, 0, 3))):
        assert math.isnan(algo.fast_at_p(empty, 1.0))
    assert algo.fast_at_p(np.zeros((2, 2, 0)), 1.0) == 0.0
    assert math.isnan(algo.hack_ratio([]))
    assert math.isnan(algo.hack_ratio(["infrastructure", None]))


@pytest.mark.parametrize(
    "arguments",
    [
        {"speedups": [[1.0]], "p": 1.0},
        {"speedups": SPEEDUPS, "p": -1.0},
        {"speedups": SPEEDUPS, "p": math.nan},
        {"speedups": SPEEDUPS, "p": 1.0, "turn": 3},
        {"speedups": SPEEDUPS, "p": 1.0, "turn": -1},
        {"speedups": SPEEDUPS, "p": 1.0, "best_of": 0},
        {"speedups": SPEEDUPS, "p": 1.0, "best_of": 4},
        {"speedups": SPEEDUPS, "p": 1.0, "best_of": 1, "turn": 1},
    ],
    ids=str,
)
def test_fast_at_p_refuses_what_it_cannot_mean(arguments):
    with pytest.raises(ValueError):
        algo.fast_at_p(**arguments)


def test_fast_ratio():
    assert algo.fast_ratio(SPEEDUPS, turn=2) == pytest.approx(0.375 / 0.5)
    assert math.isnan(algo.fast_ratio([[[0.5]]]))


@pytest.mark.parametrize(
    ("n", "c", "k"), [(4, 5, 1), (4, -1, 1), (4, 1, 5), (4, 1, 0), (4, 1.5, 1), (4, math.nan, 1)]
)
def test_pass_at_k_refuses_impossible_counts(n, c, k):
    with pytest.raises(ValueError, match="pass_at_k needs"):
        algo.pass_at_k(n, c, k)


def test_pass_at_k_of_arrays_and_of_large_numbers():
    assert algo.pass_at_k([8, 8], [3, 0], 1).tolist() == [0.375, 0.0]
    assert isinstance(algo.pass_at_k(torch.tensor([8]), torch.tensor([3]), 1), torch.Tensor)
    assert algo.pass_at_k(5000, 10, 2500) == pytest.approx(1 - 0.5**10, abs=1e-4)


def test_hack_ratio_leaves_infrastructure_out():
    outcome = enum.Enum("Outcome", {"HACK": "hack", "CORRECT": "correct", "LOST": "infrastructure"})
    assert algo.hack_ratio([outcome.HACK, outcome.CORRECT, outcome.LOST]) == 0.5
    assert algo.hack_ratio(np.array([["hack", "crash"], ["timeout", "infrastructure"]])) == 1 / 3
    assert algo.hack_ratio([["hack"], ["correct", [None]]]) == 0.5
    assert algo.hack_ratio(np.array(["hack", "correct", math.nan], dtype=object)) == 0.5


def test_turn_flows():
    first, second = algo.turn_flows(SPEEDUPS)
    assert first.counts.sum() == second.counts.sum() == 16
    assert second.counts.tolist() == [[6, 1, 3], [0, 2, 2], [1, 0, 1]]
    assert second.improved == pytest.approx(6 / 16)
    assert second.regressed == pytest.approx(1 / 16)
    assert algo.turn_flows([[[1.0]]]) == []
    assert math.isnan(algo.turn_flows(np.zeros((0, 2, 2)))[0].improved)


@BOUNDED
@given(st.integers(0, 2**32 - 1))
def test_flows_account_for_the_change_of_the_correct_rate(seed):
    speedups = np.random.default_rng(seed).choice([0, 0.5, 1.5, np.nan], (4, 3, 3))
    flow = algo.turn_flows(speedups)[0]
    gained, lost = flow.counts[0, 1:].sum(), flow.counts[1:, 0].sum()
    rates = [algo.fast_at_p(speedups, 0, turn=turn) for turn in (0, 1)]
    assert rates[1] - rates[0] == pytest.approx((gained - lost) / 12)


def test_wilson_interval_of_textbook_counts():
    assert algo.wilson_interval(5, 10) == pytest.approx((0.2366, 0.7634), abs=1e-4)
    assert algo.wilson_interval(10, 10) == pytest.approx((0.7225, 1.0), abs=1e-4)
    assert all(math.isnan(end) for end in algo.wilson_interval(0, 0))
    with pytest.raises(ValueError, match="successes"):
        algo.wilson_interval(3, 2)


def test_clustered_interval_uses_wilson_only_for_single_binary_samples():
    one = [[1], [0], [1], [1]]
    assert algo.clustered_interval(one) == algo.wilson_interval(3, 4)
    assert algo.clustered_interval([[1.5], [0], [1], [1]]) != algo.wilson_interval(3, 4)
    repeated = algo.clustered_interval(np.repeat(one, 2, axis=1))
    assert repeated != algo.wilson_interval(6, 8)


def test_problems_are_resampled_not_samples():
    """Ten problems whose eight samples agree hold ten facts, not eighty."""
    clustered = np.repeat([[1]] * 5 + [[0]] * 5, 8, axis=1)
    mixed = np.tile([[1, 0]], (10, 4))
    wide, narrow = algo.clustered_interval(clustered), algo.clustered_interval(mixed)
    assert wide.high - wide.low > 0.5
    assert narrow == (0.5, 0.5)


def test_interval_is_seeded_and_reaches_its_level():
    values = np.random.default_rng(0).random((40, 4))
    assert algo.clustered_interval(values) == algo.clustered_interval(values)
    assert algo.clustered_interval(values, seed=1) != algo.clustered_interval(values)
    narrow, wide = (algo.clustered_interval(values, level=level) for level in (0.5, 0.99))
    assert wide.low < narrow.low < values.mean() < narrow.high < wide.high
    spread = values.mean(axis=1).std() / math.sqrt(40) * 1.96
    low, high = algo.clustered_interval(torch.tensor(values))
    assert (high - low) / 2 == pytest.approx(spread, rel=0.1)


def test_the_bootstrap_of_many_problems_runs_in_blocks(monkeypatch):
    values = np.random.default_rng(0).random((50, 2))
    monkeypatch.setattr("drkernel.algo.intervals._RESAMPLES_AT_ONCE", 1000)
    low, high = algo.clustered_interval(values, samples=505)
    assert low < values.mean() < high


def test_interval_edges():
    assert all(math.isnan(end) for end in algo.clustered_interval([]))
    assert algo.clustered_interval([[0.0, None]]) == (0.0, 0.0)
    for arguments in ({"level": 1.0}, {"samples": 0}):
        with pytest.raises(ValueError):
            algo.clustered_interval([[1, 0]], **arguments)
    with pytest.raises(ValueError, match="two-dimensional"):
        algo.clustered_interval([1, 0])


def test_paired_difference_removes_how_hard_problems_are():
    generator = np.random.default_rng(0)
    hard = generator.random(40)[:, None]
    a = generator.random((40, 8)) < hard * 0.8
    b = a | (generator.random((40, 8)) < 0.15)
    paired = algo.paired_difference(a, b)
    assert paired.difference == pytest.approx(b.mean() - a.mean())
    assert 0 < paired.interval.low < paired.difference < paired.interval.high
    assert paired.p_value < 0.001
    assert paired.problems == 40
    unpaired = algo.clustered_interval(a)
    assert paired.interval.high - paired.interval.low < unpaired.high - unpaired.low


def test_paired_difference_of_equals_and_of_nothing():
    same = algo.paired_difference([[1, 0]] * 5, [[0, 1]] * 5)
    assert (same.difference, same.p_value) == (0.0, 1.0)
    assert math.isnan(algo.paired_difference([], []).difference)
    with pytest.raises(ValueError, match="same problems"):
        algo.paired_difference([[1]], [[1], [0]])


def test_intervals_of_a_metric():
    table = algo.fast_samples(SPEEDUPS, 1.2, best_of=3)
    assert table.shape == (2, 8)
    assert table.mean() == algo.fast_at_p(SPEEDUPS, 1.2, best_of=3)
    low, high = algo.clustered_interval(table)
    assert low <= table.mean() <= high


def test_context_rules():
    rewards = [4, 0, 0, 0, 0, 4, 0, 0]
    assert algo.select_context(rewards, 4, rule="recent") == [4, 5, 6, 7]
    # the earliest of the best windows, which here loses neither of no more than one good turn
    assert algo.select_context(rewards, 4, rule="window") == [0, 1, 2, 3]
    assert algo.select_context([5, 0, 0, 2, 2], 2, rule="window") == [0, 1]
    assert algo.select_context([5, 0, 3, 3], 2, rule="window") == [2, 3]  # the best turn is lost
    assert algo.select_context([5, 0, 3, 3], 2) == [0, 3]


def test_context_edges():
    assert algo.select_context([None, 1.0, math.nan, 0.0], 2) == [1, 3]
    assert algo.select_context(torch.tensor([1.0, 3.0, 2.0]), 2) == [1, 2]
    assert algo.select_context([1, 2], 0) == algo.select_context([1, 2], 0, rule="window") == []
    for arguments in (
        {"rule": "best"},
        {"tie": "first"},
        {"w": -1},
        {"rewards": [[1.0]]},
    ):
        with pytest.raises(ValueError):
            algo.select_context(**{"rewards": [1.0], "w": 1} | arguments)


@BOUNDED
@given(st.lists(st.integers(0, 3), max_size=12), st.integers(0, 6))
def test_context_is_ordered_complete_and_the_best(rewards, w):
    kept = algo.select_context(rewards, w)
    assert kept == sorted(set(kept))
    assert len(kept) == min(w, len(rewards))
    assert sorted(rewards[i] for i in kept) == sorted(rewards)[len(rewards) - len(kept) :]


def test_turn_schedule():
    assert algo.turn_schedule(5, 10, 4) == 14
    assert algo.turn_schedule(3, 1, 3) == 3
    assert algo.turn_schedule(max_turns=3, iterations=1, w=4) == 3  # no second iteration to shrink
    assert algo.iteration_turns(5, 3, 2) == [5, 3, 3]
    for arguments in ((0, 1, 0), (3, 0, 1), (3, 2, 4), (3, 2, -1), (3, 1, -1)):
        with pytest.raises(ValueError):
            algo.turn_schedule(*arguments)
