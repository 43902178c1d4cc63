"""Comparison of numbers: what passes, what fails, what is reported."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelgym.judge import compare, protocols
from kernelgym.judge.protocols import Allowance

FLOATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16]


def close(actual: torch.Tensor, target: torch.Tensor, **allowance: float) -> compare.Difference:
    return compare.difference(
        actual, target, Allowance(**({"slope": 0.0, "floor": 1.0} | allowance))
    )


def test_rule_is_slope_times_target_plus_floor():
    target = torch.tensor([100.0, -100.0, 0.0])
    at_the_limit = compare.difference(
        target + torch.tensor([1.5, -1.5, 0.5]), target, Allowance(0.01, 0.5)
    )
    assert at_the_limit.wrong == 0
    assert at_the_limit.worst_ratio == pytest.approx(1.0)
    beyond = compare.difference(
        target + torch.tensor([1.51, 0.0, 0.51]), target, Allowance(0.01, 0.5)
    )
    assert beyond.wrong == 2
    assert beyond.worst is not None
    assert beyond.worst[0] == 2  # 0.51 / 0.5 is worse than 1.51 / 1.5


@pytest.mark.parametrize("dtype", FLOATS)
def test_equal_tensors_pass_with_no_allowance_at_all(dtype):
    tensor = torch.randn(1000).to(dtype)
    found = compare.difference(tensor.clone(), tensor, Allowance(0.0, 0.0))
    assert (found.wrong, found.max_error, found.worst_ratio) == (0, 0.0, 0.0)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_special_values_must_stand_in_the_same_places(value):
    target = torch.tensor([1.0, value, 3.0])
    assert close(target.clone(), target).wrong == 0
    for actual in ([1.0, 2.0, 3.0], [value, value, 3.0], [1.0, value, value]):
        found = close(torch.tensor(actual), target)
        assert (found.wrong, found.wrong_specials) == (1, 1)


def test_infinities_of_other_sign_differ():
    assert close(torch.tensor([math.inf]), torch.tensor([-math.inf])).wrong_specials == 1


def test_kernelbench_accepts_no_nan():
    target = torch.tensor([math.nan, 1.0])
    assert compare.difference(target.clone(), target, protocols.kernelbench()).wrong == 1


def test_a_huge_finite_answer_is_not_hidden_by_an_overflowing_error():
    found = close(torch.tensor([3e38, 0.0]), torch.tensor([-3e38, 0.0]))
    assert found.wrong == 1
    assert found.max_error == pytest.approx(6e38)


def test_chunks_give_what_one_piece_gives(monkeypatch):
    torch.manual_seed(0)
    target = torch.randn(10_007)
    actual = target + 0.1 * torch.randn(10_007)
    actual[5000] = math.nan
    whole = compare.difference(actual, target, Allowance(0.01, 0.05))
    monkeypatch.setattr(compare, "CHUNK", 128)
    pieces = compare.difference(actual, target, Allowance(0.01, 0.05))
    assert pieces.wrong == whole.wrong > 100
    assert pieces.worst == whole.worst or math.isnan(pieces.worst[1])
    assert pieces.worst[0] == 5000
    assert pieces.max_error == whole.max_error
    assert pieces.rms_error == pytest.approx(whole.rms_error)
    assert pieces.quantiles == pytest.approx(whole.quantiles)


def test_quantiles_are_those_of_the_ratio():
    target = torch.zeros(101)
    found = close(torch.arange(101.0), target, floor=100.0)
    assert found.quantiles == pytest.approx((0.5, 0.9, 0.99))


def test_complex_numbers_are_compared_part_by_part():
    target = torch.tensor([1 + 1j, 2 - 2j])
    assert close(target + 0.5j, target).wrong == 0
    found = close(target + torch.tensor([0, 2j]), target)
    assert found.wrong == 1
    assert found.worst[0] == 1


def test_strides_do_not_matter():
    target = torch.randn(20, 30)
    found = close(target.clone(), target.t().contiguous().t())
    assert found.max_error == 0.0
    assert found.count == 600


@pytest.mark.parametrize("dtype", [*INTEGERS, torch.bool])
def test_integers_and_bools_are_exact(dtype):
    target = torch.tensor([0, 1, 1, 0]).to(dtype)
    assert compare.exact_difference(target.clone(), target).wrong == 0
    other = torch.tensor([0, 1, 0, 0]).to(dtype)
    found = compare.exact_difference(other, target)
    assert (found.wrong, found.worst) == (1, (2, 0.0, 1.0))


def test_large_integers_that_float64_cannot_tell_apart():
    target = torch.tensor([2**60, 5])
    found = compare.exact_difference(torch.tensor([2**60 + 1, 5]), target)
    assert found.wrong == 1
    assert found.worst_ratio == math.inf


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, torch.complex64, torch.complex128])
def test_same_bits(dtype):
    tensor = torch.arange(6).reshape(2, 3).to(dtype)
    assert compare.same_bits(tensor, tensor.clone())
    assert compare.same_bits(tensor.t(), tensor.t().clone())
    other = tensor.clone()
    other[1, 2] = 7
    assert not compare.same_bits(other, tensor)


def test_same_bits_tells_zeros_apart_and_keeps_nans_together():
    assert not compare.same_bits(torch.tensor([0.0]), torch.tensor([-0.0]))
    assert compare.same_bits(torch.tensor([math.nan]), torch.tensor([math.nan]))
    assert compare.same_bits(torch.empty(0), torch.empty(0))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50), st.floats(1e-300, 1e300))
def test_rms_matches_the_definition_at_any_scale(values, scale):
    tensor = torch.tensor(values, dtype=torch.float64)
    expected = math.hypot(*values) / math.sqrt(len(values))  # no square underflows in there
    largest = float((tensor * scale).abs().max())
    if largest not in (0.0, math.inf) and largest > 1e-290:
        assert compare.rms(tensor * scale) == pytest.approx(expected * scale, rel=1e-9)


def test_rms_ignores_special_values():
    assert compare.rms(torch.tensor([3.0, math.nan, math.inf])) == 3.0
    assert compare.rms(torch.tensor([math.nan])) == 0.0
    assert compare.rms(torch.empty(0)) == 0.0


def test_memory_of_a_large_comparison_is_bounded(monkeypatch):
    """No intermediate is larger than a chunk."""
    monkeypatch.setattr(compare, "CHUNK", 1000)
    largest = 0
    original = torch.Tensor.to

    def to(self, *args, **kwargs):
        nonlocal largest
        largest = max(largest, self.numel())
        return original(self, *args, **kwargs)

    monkeypatch.setattr(torch.Tensor, "to", to)
    target = torch.ones(50_000)
    compare.difference(torch.ones(50_000), target, Allowance(0.0, 1.0))
    compare.rms(target)
    assert 0 < largest <= 1000
