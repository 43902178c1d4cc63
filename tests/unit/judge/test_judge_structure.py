"""Containers, scalars and classes of an answer."""

from collections import namedtuple

import pytest
import torch

from kernelgym.judge.structure import StructureMismatch, match
from kernelgym.sandbox.tree import flatten

T = torch.zeros(1)
Point = namedtuple("Point", "x y")


def compare(expected, actual):
    return match(flatten(expected)[0], flatten(actual)[0])


@pytest.mark.parametrize(
    "value",
    [T, (T, T), [T], {"a": T, "b": (T, None)}, (T, 3, True, "x", 2.5, 1j), Point(T, T), (), None],
)
def test_same_structure_matches(value):
    leaves = compare(value, value)
    assert len(leaves.tensors) == len(flatten(value)[1])


@pytest.mark.parametrize(
    ("expected", "actual", "words"),
    [
        (T, (T,), "expected a tensor, got a tuple of 1"),
        ((T, T), [T, T], "expected a tuple of 2, got a list of 2"),
        ((T, T), (T,), "expected a tuple of 2, got a tuple of 1"),
        ({"a": T}, {"b": T}, "expected keys ['a']"),
        ({"a": T, "b": T}, {"b": T, "a": T}, "expected keys"),
        ({"a": (T,)}, {"a": (None,)}, "output['a'][0]: expected a tensor, got None"),
        (T, object(), "a value of type object"),
        (1, True, "expected a int, got a bool"),
    ],
)
def test_other_structures_are_named(expected, actual, words):
    with pytest.raises(StructureMismatch) as caught:
        compare(expected, actual)
    assert caught.value.status == "structure_mismatch"
    assert words in str(caught.value)


def test_plain_scalars_must_be_equal():
    with pytest.raises(StructureMismatch) as caught:
        compare((T, 3), (T, 4))
    assert caught.value.status == "value_mismatch"


def test_floats_are_left_for_a_tolerance():
    leaves = compare([1.5, 2j], [1.25, 3j])
    assert [(wanted, got) for _, wanted, got in leaves.floats] == [(1.5, 1.25), (2j, 3j)]


def test_tensor_subclasses_are_refused_unless_the_reference_returns_them():
    parameter = torch.nn.Parameter(T)
    with pytest.raises(StructureMismatch) as caught:
        compare(T, parameter)
    assert caught.value.status == "type_mismatch"
    assert compare(parameter, T).tensors
    assert compare(parameter, parameter).tensors


def test_malformed_numbers_from_a_candidate_are_a_mismatch():
    expected = flatten(1.0)[0]
    for value in ("nonsense", None, 3, ["1", "2", "3"]):
        with pytest.raises(StructureMismatch):
            match(expected, {"k": "float", "v": value})
