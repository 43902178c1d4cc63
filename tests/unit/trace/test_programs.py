"""The order in which Triton's interpreter runs the programs of a launch."""

from __future__ import annotations

import pytest
import torch

from kernelgym.trace.programs import _drawn, at

SOURCE = """
import torch
import triton
import triton.language as tl


@triton.jit
def number(counter):
    return tl.atomic_add(counter, 1)


@triton.jit
def places(out, counter):
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    at = (x * tl.num_programs(1) + y) * tl.num_programs(2) + z
    for _ in range(1):
        tl.store(out + at, number(counter))


@triton.jit
def waiting(out, counter):
    at = tl.program_id(0)
    while tl.atomic_add(counter, 0) != at:
        pass
    tl.store(out + at, number(counter))


@triton.jit
def through(out, counter):
    waiting(out, counter)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        outs = []
        for kernel, grid in [(places, (5, 4, 3)), (waiting, (60,)), (through, (60,))]:
            outs.append(torch.full((60,), -1))
            kernel[grid](outs[-1], torch.zeros(1, dtype=torch.int64))
        return tuple(outs)
"""


def test_programs_run_once_each_in_a_new_order_and_those_that_wait_by_number(start):
    driver = start(SOURCE)
    driver.build()
    seen = []
    for _ in range(3):
        shuffled, waited, through = driver.value(driver.call(torch.zeros(1)))
        by_number = torch.arange(60)
        assert torch.equal(shuffled.sort().values, by_number)
        assert torch.equal(waited, by_number)
        assert torch.equal(through, by_number)
        seen.append(tuple(shuffled.tolist()))
    assert len(set(seen)) > 1


@pytest.mark.parametrize("count", [1, 2, 6, 97])
def test_every_program_has_its_turn(count):
    turn = _drawn(count)
    assert sorted(at(number, count, turn) for number in range(count)) == list(range(count))
