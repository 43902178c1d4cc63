"""The quick comparison of timed calls: it may only say yes where the trials' own would."""

import pytest
import torch

from kernelgym.judge.answers import Examiner, Expected
from kernelgym.judge.quick import Comparison, agrees
from kernelgym.sandbox import calling
from kernelgym.sandbox.tree import flatten


def pair(expected, actual):
    node, tensors = flatten(expected)
    flat = torch.zeros(1 << 16, dtype=torch.uint8)
    output = calling.Returned(actual).answer(flat, 0, [])
    return Expected(node, tensors, []), output, flat


BASE = torch.linspace(-3, 3, 300)


@pytest.mark.parametrize("protocol", ["standard", "kernelbench", "strict"])
@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        (BASE, BASE.clone()),
        (BASE, BASE + 0.005),
        (BASE, BASE + 0.05),
        (BASE, torch.where(BASE.isclose(BASE[7]), torch.nan, BASE)),
        (BASE.where(BASE < 2, torch.inf), BASE.where(BASE < 2, torch.inf)),
        (BASE, BASE.reshape(30, 10)),
        (BASE, BASE.double()),
        ([BASE, torch.arange(5)], [BASE.clone(), torch.arange(5)]),
        ([BASE, torch.arange(5)], [BASE.clone(), torch.arange(5) + 1]),
        (BASE, [BASE]),
        (BASE.bfloat16(), (BASE * 1.01).bfloat16()),
        ({"a": BASE, "b": 2.0}, {"a": BASE.clone(), "b": 2.0}),
        (torch.empty(0), torch.empty(0)),
        (BASE * 1e-9, torch.zeros(300)),
    ],
)
def test_yes_means_yes(protocol, expected, actual):
    wanted, output, flat = pair(expected, actual)
    if agrees(protocol, wanted, output, flat):
        examiner = Examiner(protocol, torch.float32)
        assert examiner.examine(wanted, output, flat, poison=0xA5).status == "ok"


def test_it_does_say_yes():
    assert agrees("standard", *pair([BASE, torch.arange(5)], [BASE + 1e-4, torch.arange(5)]))
    assert agrees("kernelbench", *pair(BASE, BASE + 0.005))
    assert not agrees("standard", *pair(BASE, BASE + 0.05))
    assert not agrees("standard", *pair(BASE, torch.full_like(BASE, torch.nan)))


@pytest.mark.parametrize("scale", [1e30, torch.inf, torch.nan])
def test_a_target_without_a_scale_is_not_decided_here(scale):
    """Whose squares are infinite: any error would be small beside that."""
    expected = torch.cat([torch.full((1,), scale), BASE])
    assert not agrees("standard", *pair(expected, torch.cat([expected[:1], -BASE])))


def test_answers_are_decided_one_by_one():
    comparison = Comparison("standard")
    for actual in (BASE, BASE + 1, [BASE], BASE.clone()):
        comparison.add(*pair(BASE, actual))
    assert comparison.decide() == [True, False, False, True]


def test_bounds_are_found_once():
    bounds = {}
    for _ in range(2):
        comparison = Comparison("standard")
        comparison.add(*pair(BASE, BASE + 0.01), bounds)
        assert comparison.decide() == [True]
    bounds[0] = 1e-9
    comparison = Comparison("standard")
    comparison.add(*pair(BASE, BASE + 0.01), bounds)
    assert comparison.decide() == [False]


def test_a_malformed_tree_is_refused():
    wanted, output, flat = pair(BASE, BASE.clone())
    forged = output.model_copy(update={"tree": {"k": "tensor", "i": 5}})
    with pytest.raises(ValueError, match="does not exist"):
        agrees("standard", wanted, forged, flat)
