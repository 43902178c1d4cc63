"""Mismatch and profiling rejection at their edges."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from algo_forms import BOUNDED, FORMS, plain
from hypothesis import given
from hypothesis import strategies as st

from drkernel import algo

ONE = np.ones((1, 4))


def keep_of(log_ratios, mask=None, **rule):
    train = np.atleast_2d(np.asarray(log_ratios, dtype=float))
    mask = np.ones(train.shape) if mask is None else mask
    keep, w = algo.mismatch_keep(train, np.zeros(train.shape), mask, **rule)
    return keep.tolist(), w.tolist()


@pytest.mark.parametrize("library", ["numpy64", "torch64"])
def test_bounds_are_inclusive_for_rows_of_any_length(library):
    """Lengths at which a plain mean of a constant row misses the constant are among these."""
    for tokens in (*range(1, 60), 97, 2193, 8192):
        for bound in (0.999, 1.001):
            row = FORMS[library](np.full((1, tokens), math.log(bound)))
            assert algo.mismatch_keep(row, 0 * row, np.ones((1, tokens)))[0].tolist() == [True]


def test_vetoes_are_one_or_two_sided_or_off():
    low, high = [[-9.3, 9.3]], [[9.3, -9.3]]
    assert keep_of(low)[0] == [False]
    assert keep_of(low, veto=None)[0] == [True]
    assert keep_of([[-9.2, 9.2]], veto_high=1e4)[0] == [True]
    assert keep_of([[-9.0, 9.3, -0.3]], veto_high=1e4)[0] == [False]
    assert keep_of(high, veto=0)[0] == [True]


def test_a_row_without_tokens_has_w_one():
    for rule in ({}, {"level": "trajectory", "trajectory": [0, 0]}):
        train = np.array([[0.5, 0.5], [9.0, 9.0]])
        keep, w = algo.mismatch_keep(train, 0 * train, [[1, 1], [0, 0]], **rule)
        assert keep.tolist() == [False, True]
        assert w.tolist() == pytest.approx([math.exp(0.5), 1.0])


@pytest.mark.parametrize("junk", [math.nan, math.inf, -math.inf, 1e9])
@pytest.mark.parametrize("library", ["numpy64", "torch64"])
def test_tokens_outside_the_mask_never_matter(junk, library):
    train, rollout = np.full((2, 3), -1.0), np.full((2, 3), -1.0005)
    mask = np.array([[1, 1, 0], [0, 1, 1]])
    expected = algo.mismatch_keep(train, rollout, mask)
    spoiled = [FORMS[library](np.where(mask, x, junk)) for x in (train, rollout)]
    keep, w = algo.mismatch_keep(*spoiled, mask)
    assert keep.tolist() == expected[0].tolist()
    np.testing.assert_array_equal(plain(w), expected[1])


def test_impossible_tokens_are_dropped_without_a_warning():
    for train, rollout, w in ((-math.inf, -1.0, 0.0), (-1.0, -math.inf, math.inf)):
        keep, measured = algo.mismatch_keep([[train]], [[rollout]], [[1]])
        assert keep.tolist() == [False]
        assert measured.tolist() == [w]
    keep, _ = algo.mismatch_keep([[-math.inf]], [[-math.inf]], [[1]])
    assert keep.tolist() == [False]
    assert algo.mismatch_keep([[2000.0]], [[0.0]], [[1]])[1].tolist() == [math.inf]


@BOUNDED
@given(seed=st.integers(0, 2**32 - 1), form=st.sampled_from(["numpy32", "torch32", "bfloat16"]))
def test_narrow_log_probabilities_are_widened_before_the_subtraction(seed, form):
    generator = np.random.default_rng(seed)
    train = FORMS[form](-generator.exponential(2.0, (4, 32)))
    rollout = FORMS[form](plain(train) + generator.normal(0, 0.01, (4, 32)))
    mask = generator.random((4, 32)) < 0.7
    keep, w = algo.mismatch_keep(train, rollout, mask)
    exact_keep, exact_w = algo.mismatch_keep(plain(train), plain(rollout), mask)
    assert str(w.dtype).endswith("float64")
    assert isinstance(w, torch.Tensor) == (form != "numpy32")
    np.testing.assert_allclose(plain(w), exact_w, rtol=1e-12)
    assert keep.tolist() == exact_keep.tolist()


@BOUNDED
@given(st.integers(0, 2**32 - 1))
def test_pooling_is_the_mean_over_all_tokens_of_the_trajectory(seed):
    generator = np.random.default_rng(seed)
    train, mask = generator.normal(0, 0.01, (6, 9)), generator.random((6, 9)) < 0.6
    trajectory = np.array(["a", "b", "a", "c", "b", "a"])
    _, w = algo.mismatch_keep(
        train, 0 * train, mask, level="trajectory", trajectory=trajectory, veto=None
    )
    for row in range(6):
        tokens = train[trajectory == trajectory[row]][mask[trajectory == trajectory[row]]]
        expected = math.exp(tokens.mean()) if mask[row].any() else 1.0
        assert w[row] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("shape", [(0, 0), (0, 5), (3, 0)])
def test_mismatch_of_nothing(shape):
    empty = np.zeros(shape)
    keep, w = algo.mismatch_keep(empty, empty, empty)
    assert keep.tolist() == [True] * shape[0]
    assert w.tolist() == [1.0] * shape[0]
    keep, _ = algo.mismatch_keep(*(torch.zeros(shape),) * 3)
    assert keep.dtype == torch.bool
    assert math.isnan(algo.mismatch_report(empty, empty, empty).keep_rate)


def test_mismatch_refuses_what_it_cannot_mean():
    with pytest.raises(ValueError, match="share one shape"):
        algo.mismatch_keep(ONE, ONE, np.ones((1, 3)))
    with pytest.raises(ValueError, match="share one shape"):
        algo.mismatch_keep(ONE[0], ONE[0], ONE[0])
    with pytest.raises(ValueError, match="level must be"):
        algo.mismatch_keep(ONE, ONE, ONE, level="token")
    with pytest.raises(ValueError, match="needs trajectory"):
        algo.mismatch_keep(ONE, ONE, ONE, level="trajectory")
    with pytest.raises(ValueError, match="group"):
        algo.mismatch_keep(ONE, ONE, ONE, level="trajectory", trajectory=[0, 1])


def test_mismatch_report():
    mask = np.arange(8)[None, :] < np.array([2, 2, 8, 8, 0])[:, None]
    train = np.array([0.0, 0.01, 0.0005, -9.5, 5.0])[:, None] * mask
    report = algo.mismatch_report(train, 0 * train, mask, bins=2)
    assert (report.rows, report.keep_rate, report.veto_rate) == (4, 0.5, 0.25)
    assert report.keep_rate_by_length == ((2, 2, 0.5), (2, 8, 0.5))
    assert report.w_quantiles[0.5] == pytest.approx(math.exp(0.00025))


def test_profiling_policies():
    coverage = [None, math.nan, 0.9, 0.0]

    def p(correct, **rule):
        return algo.profiling_keep_probability(coverage, correct, **rule).tolist()

    assert p([1, 1, 1, 1]) == [1, 1, 1, 0]
    assert p([1, 1, 1, 1], unknown="drop") == [0, 0, 1, 0]
    assert p([0, 0, 0, 0], unknown="drop") == [1, 1, 1, 1]
    assert p([0, 0, 1, 0], keep_incorrect=False) == [0, 0, 1, 0]
    assert algo.profiling_keep_probability(0.35, True) == pytest.approx(0.5)
    assert algo.profiling_keep_probability([], []).shape == (0,)
    assert algo.profiling_keep([], [], seed=0).dtype == bool


def test_profiling_refuses_what_it_cannot_mean():
    with pytest.raises(ValueError, match="unknown must be"):
        algo.profiling_keep_probability([0.5], [1], unknown="guess")
    with pytest.raises(ValueError, match="softness"):
        algo.profiling_keep_probability([0.5], [1], softness=-0.1)
    with pytest.raises(ValueError, match="one shape"):
        algo.profiling_keep_probability([0.5], [1, 1])


def test_draws_are_seeded_alike_in_numpy_and_torch_and_follow_the_probability():
    coverage, correct = np.linspace(0, 1, 4000), np.arange(4000) % 5 > 0
    keep = algo.profiling_keep(coverage, correct, seed=7, softness=0.4)
    as_tensor = algo.profiling_keep(
        torch.tensor(coverage), torch.tensor(correct), seed=7, softness=0.4
    )
    assert keep.tolist() == as_tensor.tolist()
    assert keep.tolist() == algo.profiling_keep(coverage, correct, seed=7, softness=0.4).tolist()
    assert keep.tolist() != algo.profiling_keep(coverage, correct, seed=8, softness=0.4).tolist()
    p = algo.profiling_keep_probability(coverage, correct, softness=0.4)
    assert keep[p == 1].all()
    assert not keep[p == 0].any()
    soft = (p > 0) & (p < 1)
    assert keep[soft].mean() == pytest.approx(p[soft].mean(), abs=0.05)


def test_tau_schedule():
    assert algo.tau_schedule(0) == 0.3
    assert algo.tau_schedule(25, start=0.1, end=0.3, steps=50) == pytest.approx(0.2)
    assert algo.tau_schedule(99, start=0.1, end=0.3, steps=50) == 0.3
    with pytest.raises(ValueError, match="step"):
        algo.tau_schedule(-1)


@pytest.mark.parametrize("library", ["numpy64", "torch64"])
def test_bounds_are_inclusive_for_trajectories_of_any_lengths(library):
    generator = np.random.default_rng(0)
    for bound in (0.999, 1.001):
        for _ in range(40):
            mask = generator.random((5, 39)) < 0.7
            row = FORMS[library](np.full(mask.shape, math.log(bound)))
            keep, _ = algo.mismatch_keep(
                row, 0 * row, mask, level="trajectory", trajectory=["a"] * 5
            )
            assert keep.tolist() == [True] * 5


def test_an_impossible_token_pools_to_w_zero():
    train = np.array([[-math.inf, 0.0], [0.0, 0.0], [9.0, 9.0]])
    mask = [[1, 1], [1, 1], [0, 0]]
    keep, w = algo.mismatch_keep(
        train, np.zeros((3, 2)), mask, level="trajectory", trajectory=[0, 0, 0]
    )
    assert (keep.tolist(), w.tolist()) == ([False, False, True], [0.0, 0.0, 1.0])


@pytest.mark.parametrize("form", ["list", "numpy64", "numpy32", "torch64", "torch32", "bfloat16"])
def test_nan_in_a_mask_is_no_token(form):
    train, mask = FORMS[form]([[0.0, -5.0]]), FORMS[form]([[1.0, math.nan]])
    keep, w = algo.mismatch_keep(train, 0 * np.ones((1, 2)), mask)
    assert (keep.tolist(), w.tolist()) == ([True], [1.0])


def test_empty_lists_are_batches_without_rows():
    keep, w = algo.mismatch_keep([], [], [])
    assert keep.shape == w.shape == (0,)
    keep, w = algo.mismatch_keep(*[torch.tensor([])] * 3, level="trajectory", trajectory=[])
    assert keep.shape == w.shape == (0,)


@pytest.mark.parametrize("form", ["list", "numpy64", "numpy32", "torch64", "torch32", "bfloat16"])
def test_the_hard_rule_reads_tau_at_the_width_of_the_coverages(form):
    for tau in (0.3, 0.35, 0.7, 0.9):
        p = algo.profiling_keep_probability(FORMS[form]([tau]), [1], tau=tau, softness=0)
        assert p.tolist() == [1.0]


def test_one_verdict_may_stand_for_all_rows():
    coverage = [0.35, 0.1, None]
    expected = algo.profiling_keep_probability(coverage, [1, 1, 1]).tolist()
    assert algo.profiling_keep_probability(coverage, True).tolist() == expected
    assert algo.profiling_keep_probability(torch.tensor([0.1, 0.9]), False).tolist() == [1, 1]
    assert algo.profiling_keep(coverage, False, seed=0).tolist() == [True] * 3
