"""Unbiasedness, exactly: every group of episodes of small policies, listed with its probability."""

from __future__ import annotations

import numpy as np
import pytest
from algo_forms import plain
from small_processes import (
    AFTER_SUCCESS,
    NEVER_ALONE,
    PROCESSES,
    REGRESSION,
    REGRESSIONS_MASKED,
    THREE_TURNS,
    TWO_TURNS,
    logits_of,
    mismatch_probability,
    profiling_probability,
)

from drkernel import algo
from drkernel.algo.enumeration import (
    enumerate_episodes,
    expected_gradient,
    population_gradient,
    true_gradient,
)

EXACT = 1e-10

every_process = pytest.mark.parametrize("name", PROCESSES)
every_size = pytest.mark.parametrize("group_size", [2, 3, 4])


def error(gradient, target):
    return np.abs(gradient - target).max()


@every_process
def test_the_enumeration_is_complete_and_its_gradient_is_that_of_the_expected_reward(name):
    process, logits = PROCESSES[name], logits_of(PROCESSES[name])

    def expected_reward(x):
        episodes = enumerate_episodes(process, x)
        assert episodes.probability_U.sum() == pytest.approx(1)
        return episodes.probability_U @ episodes.reward_UT.sum(axis=1)

    gradient, h = true_gradient(enumerate_episodes(process, logits)), 1e-6
    for i in range(logits.size):
        step = np.zeros(logits.size)
        step[i] = h
        step = step.reshape(logits.shape)
        slope = (expected_reward(logits + step) - expected_reward(logits - step)) / (2 * h)
        assert gradient[i] == pytest.approx(slope, abs=1e-8)


@every_process
@every_size
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("estimator", ["trloo", "rloo_trajectory"])
def test_leave_one_out_is_unbiased(name, group_size, seed, estimator):
    episodes = enumerate_episodes(PROCESSES[name], logits_of(PROCESSES[name], seed))
    expected = expected_gradient(episodes, group_size, estimator).total
    assert error(expected, true_gradient(episodes)) < EXACT


def test_unbiased_even_alone():
    episodes = enumerate_episodes(THREE_TURNS, logits_of(THREE_TURNS))
    assert error(expected_gradient(episodes, 1, "trloo").total, true_gradient(episodes)) < EXACT


@every_process
@every_size
def test_zero_is_unbiased_exactly_where_nobody_is_ever_alone(name, group_size):
    episodes = enumerate_episodes(PROCESSES[name], logits_of(PROCESSES[name]))
    expected = expected_gradient(episodes, group_size, "trloo_zero")
    alone = expected.probability_TN[:, 1].max() > 0
    biased = error(expected.total, true_gradient(episodes)) > 1e-3
    assert biased == alone == (name != "no_early_stop")


@every_process
@every_size
def test_zero_loses_exactly_the_gradient_of_the_turns_alone(name, group_size):
    episodes = enumerate_episodes(PROCESSES[name], logits_of(PROCESSES[name]))
    raw = expected_gradient(episodes, group_size, "trloo")
    zero = expected_gradient(episodes, group_size, "trloo_zero").total
    assert error(zero + raw.by_turn_and_size_TNP[:, 1].sum(axis=0), raw.total) < EXACT


@every_process
@every_size
def test_grpo_is_one_minus_one_over_n_of_it_given_the_group_size(name, group_size):
    episodes = enumerate_episodes(PROCESSES[name], logits_of(PROCESSES[name]))
    trloo = expected_gradient(episodes, group_size, "trloo").by_turn_and_size_TNP
    grpo = expected_gradient(episodes, group_size, "grpo").by_turn_and_size_TNP
    for n in range(1, group_size + 1):
        assert error(grpo[:, n], (1 - 1 / n) * trloo[:, n]) < EXACT


def test_grpo_is_not_a_multiple_of_the_gradient_when_group_sizes_vary():
    """Why N_t is logged: turns with smaller groups are shrunk more, so the direction changes."""
    episodes = enumerate_episodes(THREE_TURNS, logits_of(THREE_TURNS))
    target = true_gradient(episodes)
    grpo = expected_gradient(episodes, 4, "grpo").total
    cosine = grpo @ target / np.linalg.norm(grpo) / np.linalg.norm(target)
    assert 0.9 < cosine < 1 - 1e-4
    fixed = enumerate_episodes(NEVER_ALONE, logits_of(NEVER_ALONE))
    expected = expected_gradient(fixed, 4, "grpo").total
    assert error(expected, 0.75 * true_gradient(fixed)) < EXACT


def test_normalised_grpo_is_no_multiple_either():
    episodes = enumerate_episodes(NEVER_ALONE, logits_of(NEVER_ALONE))
    target = true_gradient(episodes)
    expected = expected_gradient(episodes, 3, "grpo_normalized").total
    ratio = (expected @ target) / (target @ target)
    assert error(expected, ratio * target) > 1e-3


@pytest.mark.parametrize("name", ["two_turns", "three_turns"])
@pytest.mark.parametrize("group_size", [2, 3])
@pytest.mark.parametrize("filter_order", ["after", "before"])
def test_what_each_filter_order_keeps(name, group_size, filter_order):
    process, logits = PROCESSES[name], logits_of(PROCESSES[name])
    sampler = logits + np.random.default_rng(9).normal(0, 0.2, logits.shape)
    keep = mismatch_probability(logits, sampler) * profiling_probability(process)
    assert 0 < keep.mean() < 1
    episodes = enumerate_episodes(
        process, logits, sampler_logits_SA=sampler, keep_probability_SA=keep
    )
    expected = expected_gradient(episodes, group_size, "trloo", filter_order=filter_order).total
    target = population_gradient(episodes, group_size, filter_order=filter_order)
    other = {"after": "before", "before": "after"}[filter_order]
    assert error(expected, target) < EXACT
    assert error(expected, population_gradient(episodes, group_size, filter_order=other)) > 1e-3


@pytest.mark.parametrize("filter_order", ["after", "before"])
def test_a_filter_blind_to_the_action_only_scales_the_gradient(filter_order):
    logits = logits_of(THREE_TURNS)
    episodes = enumerate_episodes(
        THREE_TURNS, logits, keep_probability_SA=np.full(logits.shape, 0.6)
    )
    target = 0.6 * true_gradient(enumerate_episodes(THREE_TURNS, logits))
    expected = expected_gradient(episodes, 3, "trloo", filter_order=filter_order).total
    assert error(expected, target) < EXACT


def test_masking_regressions_takes_away_most_of_what_pushes_against_them():
    """A turn's place in its group must not depend on its own outcome."""
    logits = logits_of(AFTER_SUCCESS)
    masked = enumerate_episodes(AFTER_SUCCESS, logits, keep_probability_SA=REGRESSIONS_MASKED)
    expected = expected_gradient(masked, 4, "trloo", filter_order="before").total
    target = true_gradient(enumerate_episodes(AFTER_SUCCESS, logits))
    on_regression = np.ravel_multi_index(REGRESSION, logits.shape)
    assert 0 < expected[on_regression] / target[on_regression] < 0.5


def test_an_estimator_of_ones_own_can_be_proved():
    episodes = enumerate_episodes(TWO_TURNS, logits_of(TWO_TURNS))

    def plain_returns(rewards, group, valid):
        return plain(algo.returns_to_go(rewards, valid))

    expected = expected_gradient(episodes, 2, plain_returns).total
    assert error(expected, true_gradient(episodes)) < EXACT
