"""Schedules, clipping, skipped steps, and states that go on."""

import pytest
import torch

from drkernel.train.optimizer import Optimizer, OptimizerSettings, rate_at


def line(**settings):
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 2)
    return model, Optimizer(model, OptimizerSettings(**settings), steps=10)


def backward(model, scale=1.0):
    (model(torch.ones(1, 3)).sum() * scale).backward()


def test_gradients_that_are_no_numbers_change_nothing():
    model, optimizer = line(lr=0.1)
    before = [p.clone() for p in model.parameters()]
    backward(model, float("nan"))
    report = optimizer.step()
    assert report.skipped and optimizer.taken == 1
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    backward(model)
    assert not optimizer.step().skipped
    assert not all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


def test_reported_norm_is_before_clipping():
    model, optimizer = line(lr=0.1, clip_norm=0.5)
    backward(model, 100.0)
    # each of 6 weights and 2 biases has a gradient of 100
    assert optimizer.step().grad_norm == pytest.approx(100 * 8**0.5)


def test_vectors_are_not_decayed():
    model, optimizer = line(lr=0.1, weight_decay=0.5)
    bias = model.bias.detach().clone()
    weight = model.weight.detach().clone()
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    assert torch.equal(model.bias, bias)
    assert torch.allclose(model.weight, weight * (1 - 0.1 * 0.5))


@pytest.mark.parametrize("schedule", ["constant", "linear", "cosine"])
def test_rates_rise_then_fall(schedule):
    settings = OptimizerSettings(lr=2.0, schedule=schedule, warmup_share=0.2, final_share=0.1)
    rates = [rate_at(settings, step, 10) for step in range(11)]
    assert rates[:2] == [1.0, 2.0]
    after = rates[2:]
    assert after == sorted(after, reverse=True)
    assert rates[10] == pytest.approx(2.0 if schedule == "constant" else 0.2)


def test_a_restored_optimizer_goes_on():
    results = []
    for interrupted in (False, True):
        model, optimizer = line(lr=0.1, schedule="cosine")
        for step in range(4):
            if interrupted and step == 2:
                weights, state = model.state_dict(), optimizer.state()
                other = torch.nn.Linear(3, 2)
                other.load_state_dict(weights)
                model, optimizer = other, Optimizer(other, optimizer.settings, steps=10)
                optimizer.restore(state)
            backward(model, step + 1.0)
            optimizer.step()
        results.append(model.weight.detach().clone())
    assert torch.equal(*results)
