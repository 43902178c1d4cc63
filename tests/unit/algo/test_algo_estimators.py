"""The registry, the order of filters and baselines, and filters put together."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from algo_forms import BOUNDED, batches
from hypothesis import given

from drkernel import algo

REWARDS = np.array([[0, 2, 3.5], [2, 2.2, 0], [0, 0, 0], [2.5, 3, 4]])
VALID = np.ones((4, 3), bool)
KEEP = np.array([[1, 1, 1], [1, 0, 1], [1, 1, 1], [0, 1, 1]], bool)


def test_a_configuration_names_the_estimator():
    returns = algo.returns_to_go(REWARDS, VALID, 0.5)
    direct = {
        "trloo": algo.trloo(returns, [0] * 4, VALID),
        "trloo_zero": algo.trloo(returns, [0] * 4, VALID, singleton="zero"),
        "grpo": algo.grpo(returns, [0] * 4, VALID),
        "grpo_normalized": algo.grpo(returns, [0] * 4, VALID, normalize=True),
        "rloo_trajectory": algo.rloo_trajectory(REWARDS, [0] * 4, VALID),
        "reinforce": algo.reinforce(returns, [0] * 4, VALID),
    }
    assert set(direct) == set(algo.ESTIMATORS)
    for name, expected in direct.items():
        result = algo.advantages(name, REWARDS, [0] * 4, VALID, gamma=0.5)
        np.testing.assert_allclose(result.advantages, expected, atol=1e-12)
        np.testing.assert_allclose(result.returns, returns)
        assert result.statistics.histogram == ({4: 1},) * 3


def test_unknown_names_are_refused_with_the_known_ones():
    with pytest.raises(ValueError, match=r"grpo.*trloo"):
        algo.advantages("trlo", REWARDS, [0] * 4, VALID)
    with pytest.raises(ValueError, match="filter_order"):
        algo.advantages("trloo", REWARDS, [0] * 4, VALID, filter_order="during")
    with pytest.raises(ValueError, match="registered already"):
        algo.register_estimator("trloo", algo.trloo)
    with pytest.raises(ValueError, match="reads must be"):
        algo.register_estimator("other", algo.trloo, reads="logits")


def test_an_estimator_of_ones_own(monkeypatch):
    monkeypatch.setattr("drkernel.algo.estimators.ESTIMATORS", dict(algo.ESTIMATORS))
    algo.register_estimator("halved", lambda returns, group, valid, scale: returns * scale)
    result = algo.advantages("halved", [[4.0]], [0], [[1]], scale=0.5)
    assert result.advantages.tolist() == [[2.0]]


def test_after_compares_with_everyone_before_with_the_kept():
    after = algo.advantages("trloo", REWARDS, [0] * 4, VALID, keep=KEEP)
    before = algo.advantages("trloo", REWARDS, [0] * 4, VALID, keep=KEEP, filter_order="before")
    unfiltered = algo.advantages("trloo", REWARDS, [0] * 4, VALID)
    np.testing.assert_array_equal(after.advantages, np.where(KEEP, unfiltered.advantages, 0))
    # by hand: turn 0 keeps returns 5.5, 4.2 and 0; turn 1 keeps 5.5, 0 and 7
    np.testing.assert_allclose(before.advantages[:, 0], [5.5 - 2.1, 4.2 - 2.75, -4.85, 0])
    np.testing.assert_allclose(before.advantages[:, 1], [2.0, 0, -6.25, 4.25])
    assert before.statistics.histogram == ({3: 1}, {3: 1}, {4: 1})
    assert after.statistics.histogram == ({4: 1},) * 3
    np.testing.assert_array_equal(before.trained, KEEP)


def test_a_dropped_turn_still_counts_in_the_returns_before_it():
    keep = [[1, 0], [1, 1]]
    for order in ("after", "before"):
        result = algo.advantages(
            "trloo",
            [[1.0, 5.0], [0.0, 0.0]],
            [0, 0],
            np.ones((2, 2)),
            keep=keep,
            filter_order=order,
        )
        assert result.returns.tolist() == [[6.0, 5.0], [0.0, 0.0]]
        assert result.advantages[0].tolist() == [6.0, 0.0]


def test_filtering_before_keeps_whole_trajectory_totals():
    result = algo.advantages(
        "rloo_trajectory",
        [[1.0, 5.0], [2.0, 0.0]],
        [0, 0],
        np.ones((2, 2)),
        keep=[[1, 0], [0, 0]],
        filter_order="before",
    )
    assert result.advantages.tolist() == [[6.0, 0.0], [0.0, 0.0]]


@BOUNDED
@given(batches())
def test_before_sums_to_zero_over_the_kept(batch):
    keep = np.random.default_rng(1).random(batch.valid.shape) < 0.7
    result = algo.advantages(
        "trloo_zero", batch.values, batch.group, batch.valid, keep=keep, filter_order="before"
    )
    for label in np.unique(batch.group):
        assert np.abs(result.advantages[batch.group == label].sum(axis=0)).max() < 1e-8
    assert not result.advantages[~(keep & batch.valid)].any()


def test_nothing_survives():
    result = algo.advantages("trloo", REWARDS, [0] * 4, VALID, keep=np.zeros((4, 3)))
    assert result.nothing_trained
    assert not result.advantages.any()
    assert not algo.advantages("trloo", REWARDS, [0] * 4, VALID).nothing_trained


def test_tensors_stay_tensors():
    result = algo.advantages("trloo", torch.tensor(REWARDS), [0] * 4, torch.tensor(VALID))
    assert isinstance(result.advantages, torch.Tensor)
    assert result.advantages.dtype == torch.float64
    assert result.trained.dtype == torch.bool


def test_every_dropped_row_says_which_filter_dropped_it():
    decision = algo.combine_filters(
        {"mismatch": [1, 0, 0, 1, 0], "profiling": [1, 1, 0, 0, 0]}, valid=[1, 1, 1, 1, 0]
    )
    assert decision.keep.tolist() == [True, False, False, False, False]
    assert decision.reason.tolist() == ["", "mismatch", "mismatch", "profiling", ""]
    assert decision.reasons_of(2) == ("mismatch", "profiling")
    assert decision.survivors == 1
    assert decision.as_metrics() == {
        "filter/kept": 0.25,
        "filter/mismatch/dropped": 0.5,
        "filter/mismatch/dropped_alone": 0.25,
        "filter/profiling/dropped": 0.5,
        "filter/profiling/dropped_alone": 0.25,
    }


def test_filters_on_turn_tables_and_tensors():
    decision = algo.combine_filters({"degenerate": torch.tensor([[True, False]])})
    assert isinstance(decision.keep, torch.Tensor)
    assert decision.reason.tolist() == [["", "degenerate"]]
    assert algo.combine_filters({}, valid=[1, 0]).survivors == 1
    assert algo.combine_filters({"profiling": []}).as_metrics()["filter/kept"] == 0


def test_filters_of_different_shapes_are_refused():
    with pytest.raises(ValueError, match="share one shape"):
        algo.combine_filters({"a": [1, 0], "b": [1, 0, 1]})
    with pytest.raises(ValueError, match="at least one"):
        algo.combine_filters({})
