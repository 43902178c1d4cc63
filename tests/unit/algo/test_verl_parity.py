"""Parity with verl where definitions agree; runs only in an environment that has verl (0.9.x)."""

from __future__ import annotations

import importlib.util

import pytest
from verl_parity import COMPARISONS

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("verl") is None, reason="verl is not installed"),
    # verl and what it imports warn at import
    pytest.mark.filterwarnings("ignore"),
]


@pytest.mark.parametrize("compare", COMPARISONS, ids=lambda compare: compare.__name__)
def test_parity_with_verl(compare):
    row = compare()
    if row.agrees:
        # verl divides some means by tokens + 1e-8
        assert row.difference < 1e-7
    else:
        assert row.difference > 1e-9
