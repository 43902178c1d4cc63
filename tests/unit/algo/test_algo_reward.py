"""Rewards at the edges, and rewards of whole results."""

from __future__ import annotations

import enum
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from drkernel import algo


def result(outcome="correct", **fields):
    given = {"speedup": 2.0, "coverage": 0.5, "displaced": 0.4, "correct": outcome == "correct"}
    return {"outcome": outcome} | given | fields


def test_scalars_give_floats_arrays_give_arrays_tensors_give_tensors():
    assert algo.turn_reward(True, 2.0, None) == 3.0
    assert type(algo.turn_reward(1, np.float32(2), 0)) is float
    assert algo.turn_reward([True], [2.0], [None]).tolist() == [3.0]
    reward = algo.turn_reward(torch.tensor([True, False]), torch.tensor([2.0, 2.0]), [None, 0.5])
    assert reward.dtype == torch.float32
    assert reward.tolist() == [3.0, 0.0]
    assert algo.turn_reward(torch.tensor(True), torch.tensor(2.0), None).shape == ()


def test_missing_measurements_count_zero_and_incorrect_is_zero_whatever_was_measured():
    speedup = [math.nan, None, math.inf, math.inf]
    assert algo.turn_reward([1, 1, 1, 0], speedup, [math.nan] * 4).tolist() == [1.0, 1.0, 4.0, 0.0]
    assert algo.turn_reward(False, math.inf, 1.0, cap=math.inf) == 0.0


def test_empty_and_two_dimensional():
    assert algo.turn_reward([], [], []).shape == (0,)
    assert algo.turn_reward(np.ones((2, 3)), np.ones((2, 3)), None).tolist() == [[2.0] * 3] * 2


def test_weights_and_cap():
    assert algo.turn_reward(True, 10.0, 0.5, cap=5.0, weights=(2, 0.1, 4)) == 2 + 0.5 + 2
    with pytest.raises(ValueError, match="three numbers"):
        algo.turn_reward(True, 1.0, 0.5, weights=(1, 1))


def test_shapes_that_do_not_broadcast_are_named():
    with pytest.raises(ValueError, match=r"\[2\], \[3\]"):
        algo.turn_reward([1, 1], [1.0, 1.0, 1.0], None)


@pytest.mark.parametrize("transform", ["identity", "log1p"])
def test_gated_reward_is_one_rung_a_stage(transform):
    rewards = algo.gated_reward(
        [0, 1, 1, 1, 1],
        [0, 0, 1, 1, 1],
        [9.0, 9.0, 0.5, 9.0, 2.0],
        transform=transform,
        valid=[1, 1, 1, 1, 0],
    )
    f = math.log1p if transform == "log1p" else float
    assert rewards.tolist() == pytest.approx([-1.0, -0.5, f(0.5), f(3.0), -1.0])
    assert algo.gated_reward(True, True, None) == 0.0


@pytest.mark.parametrize("penalties", [(-0.5, -1.0), (-1.0, 0.5), (0.1, 0.0)])
def test_gated_reward_refuses_penalties_out_of_order(penalties):
    with pytest.raises(ValueError, match="r_compile <= r_incorrect <= 0"):
        algo.gated_reward(True, True, 1.0, r_compile=penalties[0], r_incorrect=penalties[1])


def test_gated_reward_refuses_an_unknown_transform():
    with pytest.raises(ValueError, match="transform must be one of"):
        algo.gated_reward(True, True, 1.0, transform="sqrt")


def test_rules_pay_what_they_say():
    assert algo.reward_from_result(result()) == 3.5
    assert algo.reward_from_result(result(), "paper_without_profiling") == 3.0
    assert algo.reward_from_result(result(), "released") == 1.75
    assert algo.reward_from_result(result(), "displaced") == 3.4
    assert algo.reward_from_result(result(speedup=0.5), "displaced") == 1.7
    assert algo.reward_from_result(result(), "gated") == 2.0
    assert algo.reward_from_result(result("compile_error"), "gated") == -1.0
    assert algo.reward_from_result(result("timeout"), "gated") == -0.5


def test_a_hack_is_not_correct_and_infrastructure_has_no_reward():
    hack = result("hack", correct=True, speedup=22.7)
    for rule in algo.REWARD_RULES:
        assert algo.reward_from_result(hack, rule) <= 0.0
        assert algo.reward_from_result(result("infrastructure", correct=None), rule) is None


def test_results_may_be_objects_with_an_enum_outcome():
    outcome = enum.Enum("Outcome", {"CORRECT": "correct"})
    as_object = SimpleNamespace(**result() | {"outcome": outcome.CORRECT})
    assert algo.reward_from_result(as_object) == 3.5


def test_unknown_rules_and_fields_are_refused():
    with pytest.raises(ValueError, match="reward rule must be one of"):
        algo.reward_from_result(result(), "papre")
    with pytest.raises(ValueError, match="credit must be"):
        algo.RewardRule(credit="speed")
    with pytest.raises(ValueError, match="form must be"):
        algo.RewardRule(form="product")


def test_reward_table_of_ragged_episodes():
    episodes = [[result(), None, result("mismatch")], [result("infrastructure")], []]
    table = algo.reward_table(episodes)
    assert table.rewards.tolist() == [[3.5, 0, 0], [0, 0, 0], [0, 0, 0]]
    assert table.valid.tolist() == [[True, False, True], [False] * 3, [False] * 3]
    assert table.infrastructure.tolist() == [[False] * 3, [True, False, False], [False] * 3]
    assert algo.reward_table([]).rewards.shape == (0, 0)
