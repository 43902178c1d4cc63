"""Shared memory is found exactly: by address and stride, not by guess."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kernelgym.sandbox import aliasing

BASE = torch.zeros(6, 8)


@pytest.mark.parametrize(
    ("outputs", "found"),
    [
        ([BASE, BASE], ["1 output 0"]),
        ([BASE[:3], BASE[3:]], []),
        ([BASE[:, :4], BASE[:, 4:]], []),
        ([BASE[:, :5], BASE[:, 4:]], ["1 output 0"]),
        ([BASE[:, ::2], BASE[:, 1::2]], []),
        ([BASE[:, ::2], BASE[:, ::4]], ["1 output 0"]),
        ([BASE.t(), BASE[0]], ["1 output 0"]),
        ([BASE[:0], BASE], []),
        ([torch.zeros(1).expand(9), torch.zeros(3)], []),
        ([torch.empty(3, device="meta"), BASE], []),
        ([BASE, BASE[0], BASE[1]], ["1 output 0", "2 output 0"]),
    ],
)
def test_outputs_among_themselves(outputs, found):
    assert aliasing.aliases(outputs, []) == found


def test_other_tensors_are_named():
    others = aliasing.ranges("input", enumerate([BASE])) + aliasing.ranges(
        "state", [("w", BASE[2])]
    )
    assert aliasing.aliases([BASE[2:4], torch.zeros(3)], others) == ["0 input 0", "0 state w"]


def test_tensors_that_share_nothing_with_outputs_are_not_told():
    others = aliasing.ranges("input", enumerate([BASE, BASE]))
    assert aliasing.aliases([torch.zeros(3)], others) == []


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float8_e5m2, torch.complex64, torch.bool])
def test_every_dtype_has_an_address(dtype):
    tensor = torch.zeros(4, dtype=dtype)
    assert aliasing.aliases([tensor, tensor[1:]], []) == ["1 output 0"]
    assert aliasing.aliases([tensor[::2], tensor[1::2]], []) == []


def test_a_flood_of_shared_outputs_is_bounded():
    assert len(aliasing.aliases([BASE] * 10_000, [])) == aliasing.MAX_FOUND


def test_many_separate_outputs_are_no_trouble():
    assert aliasing.aliases(list(torch.zeros(10_000, 2).unbind()), []) == []


SLICES = st.tuples(st.integers(0, 5), st.integers(0, 7), st.integers(1, 3), st.integers(1, 3))


@given(SLICES, SLICES)
def test_it_agrees_with_numpy_on_every_pair_of_views(a, b):
    views = [BASE[i::p, j::q] for i, j, p, q in (a, b)]
    expected = np.shares_memory(*(view.numpy() for view in views))
    assert bool(aliasing.aliases(views, [])) == expected
