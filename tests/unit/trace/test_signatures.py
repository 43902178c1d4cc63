"""Constants of a launch survive the way through JSON, or are named as unknown."""

from __future__ import annotations

import json
import math
import types

import pytest
import torch
import triton.language as tl
from hypothesis import given
from hypothesis import strategies as st

from kernelgym.trace import signatures

PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=50)


@given(st.recursive(PLAIN, lambda inner: st.tuples(inner, inner), max_leaves=6))
def test_plain_values_survive(value):
    again = signatures.decode(json.loads(json.dumps(signatures.encode(value))), {})
    assert repr(again) == repr(value)


def test_nan_and_infinity_are_valid_json():
    for value in (math.inf, -math.inf, math.nan):
        json.dumps(signatures.encode(value), allow_nan=False)


def test_types_of_triton_survive():
    for dtype in (tl.float16, tl.bfloat16, tl.float32, tl.int64, tl.float8e5):
        assert signatures.decode(signatures.encode(dtype), {}) == dtype


def test_a_constexpr_is_its_value():
    assert signatures.encode(tl.constexpr(8)) == 8


def test_functions_are_found_again_by_name():
    def function(): ...

    encoded = signatures.encode(types.SimpleNamespace(fn=function))
    assert signatures.decode(encoded, {function.__qualname__: "found"}) == "found"
    with pytest.raises(LookupError):
        signatures.decode(encoded, {})


@pytest.mark.parametrize("value", [object(), {1: 2}, torch.float32, "x" * 5000, b"bytes"])
def test_other_values_are_unknown(value):
    with pytest.raises(LookupError):
        signatures.decode(signatures.encode(value), {})
