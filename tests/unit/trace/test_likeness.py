"""Copies in disguise, and what only looks a little like one."""

from __future__ import annotations

import pytest
import torch

from kernelgym.trace import likeness

GENERATOR = torch.Generator().manual_seed(5)
X = torch.randn(4000, generator=GENERATOR)
ALL = torch.ones(4000, dtype=torch.bool)


@pytest.mark.parametrize(
    "target",
    [3 * X, X / 7 - 2, -X, X.flip(0), 1 - 2 * X[torch.randperm(4000, generator=GENERATOR)]],
    ids=["factor", "line", "sign", "flipped", "shuffled line"],
)
def test_disguises(target):
    assert likeness.rescaled(X, target, ALL)
    assert not likeness.copied(X, target, ALL)


@pytest.mark.parametrize(
    "target",
    [
        torch.nn.functional.gelu(X),
        X.cumsum(0),
        X * torch.linspace(1, 1.5, 4000),
        torch.randn(4000, generator=GENERATOR),
        torch.full((4000,), 2.0),
        X * float("nan"),
        X.abs(),
        X.relu(),
    ],
    ids=["gelu", "cumsum", "ramp", "same distribution", "constant", "nan", "abs", "relu"],
)
def test_what_was_computed_is_none(target):
    assert not likeness.rescaled(X, target, ALL)
    assert not likeness.copied(X, target, ALL)


def test_places_that_were_written_count_and_no_others():
    old, new = torch.zeros(4000), torch.zeros(4000)
    new[:100] = X[:100]
    where = likeness.changed(old, new)
    assert where.nonzero().flatten().tolist() == list(range(100))
    assert likeness.copied(X, new, where)
    new[:100] = 2 * X[:100]
    assert likeness.rescaled(X, new, where)
    assert not likeness.rescaled(X, new, ALL)


def test_scattered_changes_are_no_part_of_a_copy():
    other = torch.randn(4000, generator=GENERATOR)
    where = likeness.changed(X, torch.maximum(X, other))
    assert where.any()
    assert likeness.written(where).all()
    assert not likeness.copied(other, torch.maximum(X, other), likeness.written(where))
    part = likeness.written(ALL & (torch.arange(4000) // 1000 == 2))
    assert part.nonzero().flatten().tolist() == list(range(2000, 3000))
    assert not likeness.written(~ALL).any()


def test_integers_are_copies_when_they_are_equal():
    ids = torch.arange(4000)
    assert likeness.copied(ids, ids.clone(), ALL)
    assert not likeness.rescaled(ids, ids.flip(0), ALL)
    assert not likeness.copied(ids, ids.float(), ALL)
