"""Bands round inputs, and answers that are remembered."""

import torch

from kernelgym.judge import guards
from kernelgym.judge.answers import Verdict
from kernelgym.judge.remembering import Remembered
from kernelgym.sandbox.messages import Output
from kernelgym.sandbox.pool import ALIGNMENT, place, place_dense, view, write


def banded(tensors, start=0):
    flat = torch.zeros(1 << 17, dtype=torch.uint8)
    layouts, end = place(tensors, start, gap=guards.BAND_BYTES)
    write(flat, layouts, tensors)
    bands = guards.fill(flat, layouts, start, end, 0xA5)
    return flat, layouts, bands, end


def test_tensors_keep_their_values_and_their_neighbours_are_filled():
    x, y = torch.arange(100.0), torch.arange(7)
    flat, layouts, bands, end = banded([x, y], start=2 * ALIGNMENT)
    assert torch.equal(view(flat, layouts[0]), x)
    assert torch.equal(view(flat, layouts[1]), y)
    assert layouts[0].offset == 2 * ALIGNMENT + guards.BAND_BYTES
    between = flat[layouts[0].offset + 400 : layouts[1].offset]
    assert between.numel() >= guards.BAND_BYTES
    assert bool((between == 0xA5).all())
    assert end == layouts[1].offset + ALIGNMENT + guards.BAND_BYTES
    assert bands.broken() is None


def test_one_byte_next_to_an_input_is_seen_and_named():
    flat, layouts, bands, _ = banded([torch.ones(100)])
    flat[layouts[0].offset + 400] = 0
    assert bands.broken().startswith("1 bytes outside the inputs were written, from byte ")
    flat[layouts[0].offset + 400] = 0xA5
    flat[layouts[0].offset - 1] = 1
    assert bands.broken() is not None


def test_what_lies_inside_an_input_is_not_looked_at():
    base = torch.arange(64.0)
    flat, layouts, bands, _ = banded([base[::2], base[1::2], torch.empty(0)])
    view(flat, layouts[0]).fill_(7)
    view(flat, layouts[1]).fill_(8)
    assert bands.broken() is None


def answer(pool, *tensors, earlier=()):
    layouts, end = place_dense(tensors)
    write(pool, layouts, tensors)
    again, _ = place_dense(earlier, end)
    write(pool, again, list(earlier))
    tree = {"k": "tuple", "v": [{"k": "tensor", "i": i} for i in range(len(tensors))]}
    return Output(tree=tree, tensors=tuple(layouts), earlier=tuple(again))


WRONG = Verdict("value_mismatch", "differs")


def test_a_wrong_answer_that_was_given_before_is_stale():
    pool, memory = torch.zeros(1 << 14, dtype=torch.uint8), Remembered(1 << 20)
    old, new = torch.randn(50), torch.randn(50)
    memory.keep(answer(pool, old), pool)
    memory.keep(answer(pool, new), pool)
    assert memory.explain(WRONG, answer(pool, torch.randn(50)), pool) == WRONG
    stale = memory.explain(WRONG, answer(pool, old), pool)
    assert stale.status == "stale_answer"
    assert stale.detail == "the answer is the one given 2 calls ago, for other inputs; differs"
    assert memory.explain(Verdict(), answer(pool, old), pool).status == "ok"


def test_a_short_answer_may_be_equal_by_chance():
    pool, memory = torch.zeros(1 << 14, dtype=torch.uint8), Remembered(1 << 20)
    memory.keep(answer(pool, torch.ones(3)), pool)
    assert memory.explain(WRONG, answer(pool, torch.ones(3)), pool) == WRONG


def test_an_earlier_output_that_has_changed_is_seen():
    pool, memory = torch.zeros(1 << 14, dtype=torch.uint8), Remembered(1 << 20)
    first = torch.randn(20)
    memory.keep(answer(pool, first), pool)
    assert memory.changed(answer(pool, torch.randn(20), earlier=[first]), pool) is None
    found = memory.changed(answer(pool, torch.randn(20), earlier=[first + 1]), pool)
    assert found.status == "overwritten_output"


def test_large_answers_are_not_kept():
    pool, memory = torch.zeros(1 << 14, dtype=torch.uint8), Remembered(64)
    assert memory.keep(answer(pool, torch.ones(20)), pool) == []
    assert memory.explain(WRONG, answer(pool, torch.ones(20)), pool) == WRONG
