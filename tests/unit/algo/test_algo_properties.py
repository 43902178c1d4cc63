"""Laws that hold for every batch: B <= 64, T <= 6, ragged groups, every form and width."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from algo_forms import BOUNDED, FORMS, Batch, batches, plain
from hypothesis import given
from hypothesis import strategies as st

from drkernel import algo

GROUPED = {
    "trloo": lambda b, **kw: algo.trloo(b.values, b.group, b.valid, **kw),
    "trloo_zero": lambda b: algo.trloo(b.values, b.group, b.valid, singleton="zero"),
    "grpo": lambda b: algo.grpo(b.values, b.group, b.valid),
    "grpo_normalized": lambda b: algo.grpo(b.values, b.group, b.valid, normalize=True),
    "rloo_trajectory": lambda b: algo.rloo_trajectory(b.values, b.group, b.valid),
    "reinforce": lambda b: algo.reinforce(b.values, b.group, b.valid),
    "returns": lambda b: algo.returns_to_go(b.values, b.valid, 0.5),
    "degenerate": lambda b: algo.drop_degenerate_groups(b.values, b.group, b.valid),
    "degenerate_last": lambda b: algo.drop_degenerate_groups(
        b.values, b.group, b.valid, on="last_turn"
    ),
}
every_estimator = pytest.mark.parametrize("name", GROUPED)


def cell_sums(values, batch):
    """Sum over the valid members of each row's (group, turn), written as loops on purpose."""
    sums = np.zeros(values.shape)
    for b in range(values.shape[0]):
        for t in range(values.shape[1]):
            peers = (batch.group == batch.group[b]) & batch.valid[:, t]
            sums[b, t] = values[peers, t].sum()
    return sums


@BOUNDED
@given(batches())
def test_trloo_sums_to_zero_except_alone(batch):
    advantages = algo.trloo(batch.values, batch.group, batch.valid)
    sizes = algo.group_sizes(batch.group, batch.valid)
    sums = cell_sums(advantages, batch)
    assert np.abs(sums[sizes > 1]).max(initial=0) < 1e-9
    alone = (sizes == 1) & batch.valid
    np.testing.assert_array_equal(advantages[alone], batch.values[alone])


@BOUNDED
@given(batches())
def test_trloo_is_the_return_minus_the_mean_of_the_others(batch):
    advantages = algo.trloo(batch.values, batch.group, batch.valid)
    for b, t in np.argwhere(batch.valid):
        others = (batch.group == batch.group[b]) & batch.valid[:, t]
        others[b] = False
        baseline = batch.values[others, t].mean() if others.any() else 0.0
        assert advantages[b, t] == pytest.approx(batch.values[b, t] - baseline, abs=1e-9)


@BOUNDED
@given(batches(), st.sampled_from([-1e6, -3.0, 0.1, 7.0, 1e9]))
def test_a_constant_added_to_a_group_and_turn_changes_nothing(batch, shift):
    shifts = np.random.default_rng(0).integers(-2, 3, (batch.group.max() + 1, 6)) * shift
    moved = batch.values + shifts[batch.group][:, : batch.values.shape[1]]
    tolerance = 1e-9 * max(1.0, abs(shift) * 1e-6)
    for name in ("trloo_zero", "grpo"):
        before = GROUPED[name](batch)
        after = GROUPED[name](Batch(moved, batch.group, batch.valid))
        np.testing.assert_allclose(after, before, rtol=0, atol=tolerance)


@BOUNDED
@given(batches())
def test_trloo_is_n_over_n_minus_one_times_grpo(batch):
    sizes = algo.group_sizes(batch.group, batch.valid)
    factor = np.where(sizes > 1, sizes / np.maximum(sizes - 1, 1), 0.0)
    np.testing.assert_allclose(
        GROUPED["trloo_zero"](batch), factor * GROUPED["grpo"](batch), rtol=0, atol=1e-9
    )


@every_estimator
@BOUNDED
@given(batches(), st.integers(0, 2**32 - 1))
def test_permutation_equivariance(name, batch, seed):
    order = np.random.default_rng(seed).permutation(len(batch.group))
    shuffled = Batch(batch.values[order], batch.group[order], batch.valid[order])
    np.testing.assert_allclose(
        plain(GROUPED[name](shuffled)), plain(GROUPED[name](batch))[order], rtol=0, atol=1e-8
    )


@every_estimator
@BOUNDED
@given(batches())
def test_relabelling_groups_changes_nothing(name, batch):
    labels = np.array([f"prompt-{7 * g % 64}" for g in batch.group])
    tuples = [("level2", int(g)) for g in batch.group]
    expected = plain(GROUPED[name](batch))
    for group in (labels, labels.astype(object), tuples, torch.tensor(batch.group), list(labels)):
        relabelled = Batch(batch.values, group, batch.valid)
        np.testing.assert_allclose(plain(GROUPED[name](relabelled)), expected, rtol=0, atol=1e-8)


@BOUNDED
@given(batches(), st.integers(0, 2**32 - 1))
def test_gamma_zero_is_local(batch, seed):
    other = np.random.default_rng(seed).normal(size=batch.values.shape)
    for turn in range(batch.values.shape[1]):
        mixed = other.copy()
        mixed[:, turn] = batch.values[:, turn]
        for values in (batch.values, mixed):
            returns = algo.returns_to_go(values, batch.valid, 0.0)
            expected = np.where(batch.valid[:, turn], batch.values[:, turn], 0.0)
            np.testing.assert_array_equal(returns[:, turn], expected)


@every_estimator
@BOUNDED
@given(batches(prefix=True), st.integers(1, 3), st.integers(0, 5))
def test_padding_turns_and_rows_changes_nothing(name, batch, turns, rows):
    wide = np.pad(batch.values, ((0, rows), (0, turns)), constant_values=99.0)
    valid = np.pad(batch.valid, ((0, rows), (0, turns)))
    group = np.pad(batch.group, (0, rows))  # padding rows even claim to be of a real group
    padded = plain(GROUPED[name](Batch(wide, group, valid)))
    b, t = batch.values.shape
    np.testing.assert_allclose(padded[:b, :t], plain(GROUPED[name](batch)), rtol=0, atol=1e-9)
    assert not padded[b:].any()
    assert not padded[:, t:].any()


@every_estimator
@BOUNDED
@given(batches(), st.sampled_from([np.nan, 1e9, -5.0]))
def test_masked_turns_never_matter(name, batch, junk):
    spoiled = Batch(np.where(batch.valid, batch.values, junk), batch.group, batch.valid)
    expected = plain(GROUPED[name](batch))
    np.testing.assert_array_equal(plain(GROUPED[name](spoiled)), expected)
    assert not expected[~batch.valid].any()


@every_estimator
@pytest.mark.parametrize("form", FORMS)
@BOUNDED
@given(batches(max_rows=16))
def test_every_form_gives_the_same_result(name, form, batch):
    given_values = FORMS[form](batch.values)  # the grid of values is exact in bfloat16
    result = GROUPED[name](Batch(given_values, batch.group, batch.valid))
    expected = plain(GROUPED[name](batch))
    assert isinstance(result, torch.Tensor) == isinstance(given_values, torch.Tensor)
    narrow = form in ("numpy32", "torch32", "bfloat16")
    scale = max(np.abs(expected).max(initial=0), 1.0)
    np.testing.assert_allclose(
        plain(result), expected, rtol=0, atol=1e-6 * scale if narrow else 1e-12
    )
    if not name.startswith("degenerate"):
        assert str(result.dtype).endswith("float32" if narrow else "float64")


@BOUNDED
@given(batches())
def test_group_statistics_count_every_valid_turn_once(batch):
    statistics = algo.group_statistics(batch.group, batch.valid)
    counted = [sum(n * c for n, c in sizes.items()) for sizes in statistics.histogram]
    assert counted == batch.valid.sum(axis=0).tolist()


@BOUNDED
@given(
    own=st.floats(0.01, 10),
    foreign=st.floats(0, 10),
    padding=st.floats(0, 100),
    reference=st.floats(0.01, 100),
)
def test_a_padded_kernel_gains_nothing_under_displaced(own, foreign, padding, reference):
    """Padding: time wasted in the candidate's own kernels. Library time and the reference stay."""

    def result(extra):
        total = own + extra + foreign
        return {
            "outcome": "correct",
            "correct": True,
            "speedup": reference / total,
            "coverage": (own + extra) / total,
            "displaced": min(max(1 - foreign / reference, 0.0), 1.0),
        }

    honest, padded = (algo.reward_from_result(result(e), "displaced") for e in (0.0, padding))
    assert padded <= honest + 1e-12


def test_a_padded_kernel_gains_under_coverage():
    """The reason for the other credit: beyond the cap, the slower kernel earns more."""
    honest = {"outcome": "correct", "correct": True, "speedup": 8.0, "coverage": 0.5}
    padded = {"outcome": "correct", "correct": True, "speedup": 4.0, "coverage": 0.75}
    assert algo.reward_from_result(padded) > algo.reward_from_result(honest)
