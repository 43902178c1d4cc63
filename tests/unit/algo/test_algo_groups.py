"""Returns, groups, and the estimators at their edges."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from drkernel import algo

ESTIMATORS = (algo.trloo, algo.grpo, algo.rloo_trajectory, algo.reinforce)


def test_an_invalid_turn_ends_the_chain_of_returns():
    assert algo.returns_to_go([[1, 2, 4]], [[1, 0, 1]]).tolist() == [[1.0, 0.0, 4.0]]


def test_a_valid_turn_without_reward_is_refused():
    with pytest.raises(ValueError, match="valid turn has no reward"):
        algo.returns_to_go([[1.0, None]], [[1, 1]])
    assert algo.returns_to_go([[1.0, None]], [[1, 0]]).tolist() == [[1.0, 0.0]]


@pytest.mark.parametrize("gamma", [-0.1, 1.1, math.nan])
def test_gamma_outside_the_unit_interval_is_refused(gamma):
    with pytest.raises(ValueError, match="gamma"):
        algo.returns_to_go([[1.0]], [[1]], gamma)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (2, 0)])
def test_nothing_in_nothing_out(estimator, shape):
    empty = np.zeros(shape)
    assert estimator(empty, [0] * shape[0], empty).shape == shape
    assert estimator(torch.zeros(shape), [0] * shape[0], torch.zeros(shape)).shape == shape
    assert algo.group_sizes([0] * shape[0], empty).shape == shape
    assert algo.drop_degenerate_groups(empty, [0] * shape[0], empty).shape == shape
    assert algo.returns_to_go([], []).shape == (0, 0)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_no_valid_turn_gives_zeros(estimator):
    assert estimator([[1.0, 2.0]], ["p"], [[0, 0]]).tolist() == [[0.0, 0.0]]


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_wrong_shapes_are_refused(estimator):
    with pytest.raises(ValueError, match="two-dimensional"):
        estimator([1.0, 2.0], [0, 0], [1, 1])
    with pytest.raises(ValueError, match=r"valid must have shape"):
        estimator([[1.0], [2.0]], [0, 0], [[1, 1], [1, 1]])
    with pytest.raises(ValueError, match="ragged"):
        estimator([[1.0], [2.0, 3.0]], [0, 0], [[1], [1]])
    with pytest.raises(ValueError, match="NaN at a valid turn"):
        estimator([[math.nan]], [0], [[1]])


@pytest.mark.parametrize("estimator", [algo.trloo, algo.grpo, algo.rloo_trajectory])
@pytest.mark.parametrize("group", [[0], np.zeros(3), np.zeros((2, 1))])
def test_one_label_a_trajectory(estimator, group):
    with pytest.raises(ValueError, match="group"):
        estimator([[1.0], [2.0]], group, [[1], [1]])


def test_unknown_singleton_rule():
    with pytest.raises(ValueError, match="singleton must be one of"):
        algo.trloo([[1.0]], [0], [[1]], singleton="mean")


def test_rloo_trajectory_alone_and_with_a_dead_peer():
    rewards, valid = [[1.0, 2.0], [5.0, 5.0]], [[1, 1], [0, 0]]
    assert algo.rloo_trajectory(rewards, [0, 0], valid).tolist() == [[3.0, 3.0], [0.0, 0.0]]
    zero = algo.rloo_trajectory(rewards, [0, 0], valid, singleton="zero")
    assert zero.tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_reinforce_whitens_over_all_valid_turns():
    returns, valid = np.array([[3.0, 1.0], [5.0, 77.0]]), [[1, 1], [1, 0]]
    whitened = algo.reinforce(returns, [0, 1], valid)
    kept = whitened[np.array(valid, bool)]
    assert kept.mean() == pytest.approx(0, abs=1e-12)
    assert kept.std(ddof=1) == pytest.approx(1, abs=1e-5)
    assert algo.reinforce([[3.0]], [0], [[1]]).tolist() == [[0.0]]


def test_a_large_common_offset_leaves_no_rounding_in_the_sum():
    returns = 1e9 + np.random.default_rng(0).random((15, 1))
    for estimator in (algo.trloo, algo.grpo):
        assert abs(estimator(returns, [0] * 15, np.ones((15, 1))).sum()) < 1e-12


def test_group_sizes_also_tell_an_invalid_row_its_cell():
    valid = [[1, 1, 0], [1, 1, 0], [1, 0, 0], [1, 1, 1]]
    assert algo.group_sizes([0] * 4, valid).tolist() == [[4, 3, 1]] * 4
    assert algo.group_sizes([0] * 4, torch.tensor(valid)).dtype == torch.int64


def test_group_statistics():
    statistics = algo.group_statistics([0, 0, 1, 2], [[1, 1], [1, 0], [1, 1], [0, 0]])
    assert statistics.histogram == ({1: 1, 2: 1}, {1: 2})
    assert statistics.mean_size == (1.5, 1.0)
    assert statistics.singletons == (1, 2)
    metrics = statistics.as_metrics()
    assert metrics["group_size/turn_2/mean"] == 1.0
    assert metrics["group_size/turn_1/min"] == 1.0
    assert math.isnan(algo.group_statistics([0], [[0]]).mean_size[0])
    assert algo.group_statistics([], []).histogram == ()


def test_degenerate_groups_by_turn_and_by_last_turn():
    returns = [[3.0, 1.0], [1.0, 1.0], [2.0, 0.0], [2.0, 9.0], [7.0, 7.0]]
    group, valid = [0, 0, 1, 1, 2], [[1, 1], [1, 1], [1, 0], [1, 1], [1, 1]]
    by_turn = algo.drop_degenerate_groups(returns, group, valid)
    assert by_turn.tolist() == [[True, False]] * 2 + [[False, False]] * 3
    # group 1's last valid turns are turn 0 of one (2.0) and turn 1 of the other (9.0): they vary
    last = algo.drop_degenerate_groups(returns, group, valid, on="last_turn")
    assert last.tolist() == [[False, False]] * 2 + [[True, False], [True, True], [False, False]]


def test_degenerate_threshold_and_unknown_rule():
    returns, valid = [[1.0], [1.1]], [[1], [1]]
    assert algo.drop_degenerate_groups(returns, [0, 0], valid, min_std=0.049).all()
    assert not algo.drop_degenerate_groups(returns, [0, 0], valid, min_std=0.051).any()
    with pytest.raises(ValueError, match="on must be"):
        algo.drop_degenerate_groups(returns, [0, 0], valid, on="first_turn")


def test_infrastructure_makes_the_turns_before_it_unknown():
    valid = [[1, 1, 1], [1, 1, 1], [1, 1, 0]]
    failed = [[0, 1, 0], [0, 0, 0], [0, 0, 1]]
    cleaned = algo.propagate_infrastructure(valid, failed)
    assert cleaned.tolist() == [[False, False, True], [True] * 3, [False] * 3]
    local = algo.propagate_infrastructure(valid, failed, gamma=0.0)
    assert local.tolist() == [[True, False, True], [True] * 3, [True, True, False]]
    as_tensor = algo.propagate_infrastructure(torch.tensor(valid), torch.tensor(failed))
    assert as_tensor.dtype == torch.bool
    assert as_tensor.tolist() == cleaned.tolist()


@pytest.mark.parametrize("dtype", [torch.int32, torch.float32, torch.float16, torch.bfloat16])
def test_labels_may_be_a_tensor_of_any_dtype(dtype):
    labels = torch.tensor([3, 5, 3], dtype=dtype)
    assert algo.group_sizes(labels, [[1], [1], [1]]).tolist() == [[2], [1], [2]]


def test_labels_may_be_a_list_of_one_number_tensors():
    labels = [torch.tensor(3), torch.tensor(5), torch.tensor(3)]
    assert algo.group_sizes(labels, [[1], [1], [1]]).tolist() == [[2], [1], [2]]
    assert algo.trloo([[4.0], [9.0], [1.0]], labels, [[1]] * 3).tolist() == [[3.0], [9.0], [-3.0]]
