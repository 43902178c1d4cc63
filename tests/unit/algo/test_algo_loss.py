"""Losses: gradients, masks, planned rows, KL and entropy."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from algo_forms import BOUNDED, plain
from hypothesis import given
from hypothesis import strategies as st

from drkernel import algo

AGGREGATES = ("token_mean", "seq_mean_token_mean", "seq_mean_token_sum")


def random_rows(seed, rows=5, tokens=7):
    generator = np.random.default_rng(seed)
    old = -generator.exponential(1.0, (rows, tokens))
    logp = old + generator.normal(0, 0.5, (rows, tokens))
    advantages = generator.normal(0, 2, rows)
    mask = generator.random((rows, tokens)) < 0.7
    return logp, old, advantages, mask


def loss_by_loops(logp, old, advantages, mask, aggregate, low=0.2, high=0.28, dual=3.0):
    """The definition, one token at a time."""
    sums, tokens = [], 0
    for r in range(len(advantages)):
        losses = []
        for t in np.flatnonzero(mask[r]):
            ratio, a = math.exp(logp[r, t] - old[r, t]), advantages[r]
            loss = max(-a * ratio, -a * min(max(ratio, 1 - low), 1 + high))
            losses.append(min(loss, -a * dual) if a < 0 else loss)
        tokens += len(losses)
        mean = aggregate == "seq_mean_token_mean"
        sums.append(sum(losses) / max(len(losses), 1) if mean else sum(losses))
    return sum(sums) / (tokens if aggregate == "token_mean" else len(sums))


@pytest.mark.parametrize("aggregate", AGGREGATES)
@BOUNDED
@given(st.integers(0, 2**32 - 1))
def test_policy_loss_is_its_definition(aggregate, seed):
    logp, old, advantages, mask = random_rows(seed)
    expected = loss_by_loops(logp, old, advantages, mask, aggregate)
    loss, metrics = algo.policy_loss(logp, old, advantages, mask, aggregate=aggregate)
    assert loss == pytest.approx(expected, abs=1e-9)
    assert metrics["loss"] == pytest.approx(expected, abs=1e-9)
    tensors = [torch.tensor(x) for x in (logp, old, advantages, mask)]
    as_tensor, torch_metrics = algo.policy_loss(*tensors, aggregate=aggregate)
    assert as_tensor.dtype == torch.float64
    assert as_tensor.item() == pytest.approx(expected, abs=1e-9)
    assert torch_metrics == pytest.approx(metrics)
    with_lists, _ = algo.policy_loss(*(x.tolist() for x in tensors), aggregate=aggregate)
    assert with_lists == pytest.approx(expected, abs=1e-9)


@BOUNDED
@given(st.integers(0, 2**32 - 1))
def test_gradient_is_that_of_finite_differences(seed):
    logp, old, advantages, mask = random_rows(seed, 2, 3)
    tensor = torch.tensor(logp, requires_grad=True)
    algo.policy_loss(tensor, torch.tensor(old), torch.tensor(advantages), mask)[0].backward()
    h = 1e-6
    for index in np.ndindex(logp.shape):
        step = np.zeros(logp.shape)
        step[index] = h
        up, down = (
            algo.policy_loss(x, old, advantages, mask)[0] for x in (logp + step, logp - step)
        )
        assert tensor.grad[index].item() == pytest.approx((up - down) / (2 * h), abs=1e-4)


def test_only_logp_gets_a_gradient():
    logp, old, advantages, mask = (torch.tensor(x) for x in random_rows(0))
    for tensor in (logp, old, advantages):
        tensor.requires_grad_(True)
    algo.policy_loss(logp, old, advantages, mask)[0].backward()
    assert logp.grad.abs().sum() > 0
    assert old.grad is None
    assert advantages.grad is None


def test_on_policy_the_gradient_is_reinforce():
    logp, _, advantages, mask = (torch.tensor(x) for x in random_rows(3))
    gradients = []
    for loss in (
        lambda x: algo.policy_loss(x, None, advantages, mask)[0],
        lambda x: algo.policy_loss(x, x.detach(), advantages, mask)[0],
        lambda x: algo.reinforce_loss(x, advantages, mask)[0],
    ):
        leaf = logp.clone().requires_grad_(True)
        loss(leaf).backward()
        gradients.append(leaf.grad)
    expected = -(advantages[:, None] * mask) / 5
    for gradient in gradients:
        torch.testing.assert_close(gradient, expected)


@pytest.mark.parametrize("junk", [math.nan, math.inf, -math.inf])
def test_masked_tokens_never_matter_not_even_backwards(junk):
    logp, old, advantages, mask = random_rows(1)
    mask[2] = False
    expected, _ = algo.policy_loss(logp, old, advantages, mask)
    spoiled = [torch.tensor(np.where(mask, x, junk)) for x in (logp, old)]
    spoiled_advantages = torch.tensor(np.where(np.arange(5) == 2, junk, advantages))
    spoiled[0].requires_grad_(True)
    loss, metrics = algo.policy_loss(*spoiled, spoiled_advantages, torch.tensor(mask))
    loss.backward()
    assert loss.item() == pytest.approx(expected)
    assert torch.isfinite(spoiled[0].grad).all()
    assert not spoiled[0].grad[~torch.tensor(mask)].any()
    assert all(math.isfinite(value) for value in metrics.values())


@pytest.mark.parametrize("estimator", ["k1", "k2", "k3"])
def test_masked_tokens_never_matter_to_the_kl_term(estimator):
    logp = torch.tensor([[-1.0, math.nan]], requires_grad=True)
    loss, _ = algo.policy_loss(
        logp,
        [[-1.0, math.inf]],
        [1.0],
        [[1, 0]],
        logp_ref=[[-1.5, -math.inf]],
        kl_coef=0.1,
        kl_estimator=estimator,
    )
    loss.backward()
    assert math.isfinite(loss.item())
    assert math.isfinite(logp.grad[0, 0])
    assert logp.grad[0, 1] == 0


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_a_filter_removes_rows_from_the_sum_not_from_the_denominator(aggregate):
    logp, old, advantages, mask = random_rows(2)
    keep = np.array([1, 1, 0, 1, 0])
    rows = [
        algo.policy_loss(
            logp[r : r + 1],
            old[r : r + 1],
            advantages[r : r + 1],
            mask[r : r + 1],
            aggregate=aggregate,
            denominator=1.0,
        )[0]
        for r in range(5)
    ]
    loss, metrics = algo.policy_loss(logp, old, advantages, mask, aggregate=aggregate, keep=keep)
    planned = mask.sum() if aggregate == "token_mean" else 5
    assert loss == pytest.approx(float(np.array(rows) @ keep) / planned)
    assert metrics["denominator"] == planned == algo.planned_denominator(mask, aggregate)
    assert (metrics["planned_rows"], metrics["trained_rows"]) == (5, 3)
    assert metrics["trained_tokens"] == mask[keep == 1].sum()


def test_emptied_masks_count_as_planned_rows_too():
    logp, old, advantages, mask = random_rows(2)
    mask[3:] = False
    loss, metrics = algo.policy_loss(logp, old, advantages, mask)
    short, _ = algo.policy_loss(logp[:3], old[:3], advantages[:3], mask[:3])
    assert loss == pytest.approx(short * 3 / 5)
    assert metrics["denominator"] == 5


def test_a_given_denominator():
    logp, old, advantages, mask = random_rows(2)
    planned, _ = algo.policy_loss(logp, old, advantages, mask)
    assert algo.policy_loss(logp, old, advantages, mask, denominator=5000)[0] == pytest.approx(
        planned / 1000
    )
    with pytest.raises(ValueError, match="denominator must be positive"):
        algo.policy_loss(logp, old, advantages, mask, denominator=0)


@pytest.mark.parametrize("shape", [(0, 0), (0, 4), (3, 0)])
@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_nothing_to_train_is_a_loss_of_zero_with_a_graph(shape, aggregate):
    for empty in (np.zeros(shape), torch.zeros(shape, requires_grad=True)):
        loss, metrics = algo.policy_loss(
            empty, None, np.zeros(shape[0]), np.zeros(shape), aggregate=aggregate
        )
        assert float(plain(loss)) == 0.0
        assert metrics["trained_rows"] == 0.0
    loss.backward()


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_empty_lists_are_batches_without_rows(aggregate):
    for nothing in ([], torch.tensor([])):
        loss, metrics = algo.policy_loss(nothing, nothing, nothing, nothing, aggregate=aggregate)
        assert (float(loss), metrics["planned_rows"]) == (0.0, 0.0)


def test_nan_in_a_mask_is_no_token():
    for form in (list, np.array, torch.tensor):
        mask = form([[1.0, math.nan]])
        assert float(algo.policy_loss([[0.0, 0.0]], None, [2.0], mask)[0]) == -2.0


def test_huge_ratios_stay_finite():
    logp = torch.tensor([[800.0], [800.0]], requires_grad=True)
    loss, _ = algo.policy_loss(logp, torch.zeros(2, 1), torch.tensor([1.0, -1.0]), torch.ones(2, 1))
    loss.backward()
    assert loss.item() == pytest.approx((-1.28 + 3.0) / 2)
    assert torch.isfinite(logp.grad).all()


def test_without_a_dual_clip_a_bad_token_weighs_its_ratio():
    arguments = [[math.log(5.0)]], [[0.0]], [-1.0], [[1]]
    assert algo.policy_loss(*arguments, clip_dual=None)[0] == pytest.approx(5.0)
    assert algo.policy_loss(*arguments)[1]["clip_fraction_dual"] == 1.0


def test_clip_fractions():
    ratios = np.array([[1.5, 0.7, 1.0, 5.0]])
    rows = np.log(np.repeat(ratios, 2, axis=0))
    _, metrics = algo.policy_loss(rows, 0 * rows, [1.0, -1.0], np.ones((2, 4)))
    assert metrics["clip_fraction_high"] == pytest.approx(2 / 8)
    assert metrics["clip_fraction_low"] == pytest.approx(1 / 8)
    assert metrics["clip_fraction_dual"] == pytest.approx(1 / 8)
    assert metrics["ratio_mean"] == pytest.approx(ratios.mean())
    assert metrics["kl_to_old"] == pytest.approx(-np.log(ratios).mean())


@pytest.mark.parametrize(
    ("estimator", "kl"), [("k1", 0.5), ("k2", 0.125), ("k3", math.exp(-0.5) - 0.5)]
)
def test_kl_term(estimator, kl):
    logp, reference, mask = [[-1.0, -9.0]], [[-1.5, 3.0]], [[1, 0]]
    loss, metrics = algo.policy_loss(
        logp, logp, [0.0], mask, logp_ref=reference, kl_coef=0.1, kl_estimator=estimator
    )
    assert loss == pytest.approx(0.1 * kl)
    assert metrics["kl_to_reference"] == pytest.approx(kl)


def test_entropy_term_and_its_gradient():
    entropy = torch.tensor([[2.0, 7.0]], requires_grad=True)
    loss, metrics = algo.reinforce_loss(
        torch.zeros(1, 2), [1.0], [[1, 0]], entropy=entropy, entropy_coef=0.01
    )
    loss.backward()
    assert loss.item() == pytest.approx(-0.02)
    assert metrics["entropy"] == 2.0
    assert entropy.grad.tolist() == [[pytest.approx(-0.01), 0.0]]


@pytest.mark.parametrize("narrow", [torch.float32, torch.bfloat16, torch.float16])
def test_narrow_inputs_are_computed_in_float32(narrow):
    logp, old, advantages, mask = (torch.tensor(x) for x in random_rows(4))
    logp, old = logp.to(narrow).requires_grad_(True), old.to(narrow)
    loss, _ = algo.policy_loss(logp, old, advantages, mask)
    exact, _ = algo.policy_loss(logp.double(), old.double(), advantages, mask)
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(exact.item(), rel=1e-5)
    loss.backward()
    assert logp.grad.dtype == narrow
    as_numpy, _ = algo.policy_loss(plain(logp).astype(np.float32), plain(old), advantages, mask)
    assert as_numpy.item() == pytest.approx(exact.item(), rel=1e-5)


def test_advantages_may_be_given_by_token():
    logp, old, advantages, mask = random_rows(5)
    by_row, _ = algo.policy_loss(logp, old, advantages, mask)
    by_token, _ = algo.policy_loss(logp, old, np.repeat(advantages[:, None], 7, axis=1), mask)
    assert by_token == pytest.approx(by_row)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"logp": np.zeros((5, 6))}, "logp must have shape"),
        ({"logp_old": np.zeros((4, 7))}, "logp_old must have shape"),
        ({"advantages": np.zeros(4)}, "advantages must have shape"),
        ({"mask": np.ones(7)}, "mask must be two-dimensional"),
        ({"keep": np.ones(4)}, "keep must have shape"),
        ({"aggregate": "mean"}, "aggregate must be one of"),
        ({"clip_low": -0.1}, "clip_low"),
        ({"clip_dual": 1.0}, "clip_dual must be above 1"),
        ({"kl_coef": 0.1}, "kl_coef needs logp_ref"),
        ({"entropy_coef": 0.1}, "entropy_coef needs entropy"),
        ({"logp_ref": np.zeros((5, 7)), "kl_estimator": "k4"}, "kl_estimator must be"),
    ],
    ids=str,
)
def test_wrong_arguments_are_refused(change, message):
    logp, old, advantages, mask = random_rows(6)
    arguments = {"logp": logp, "logp_old": old, "advantages": advantages, "mask": mask} | change
    with pytest.raises(ValueError, match=message):
        algo.policy_loss(**arguments)
