"""Reductions and scans with own functions, in the interpreter: right, and many elements a call."""

from __future__ import annotations

import pytest
import torch

SOURCE = """
import torch
import triton
import triton.language as tl

@triton.jit
def larger(a, b):
    return tl.maximum(a, b)

@triton.jit
def welford(m1, s1, n1, m2, s2, n2):
    n = n1 + n2
    d = m2 - m1
    share = n2 / n
    return m1 + d * share, s1 + s2 + d * d * n1 * share, n

@triton.jit
def linear(a1, b1, a2, b2):
    return a1 * a2, a2 * b1 + b2

@triton.jit
def largest_kernel(x, out, R: tl.constexpr, C: tl.constexpr):
    row, column = tl.arange(0, R)[:, None], tl.arange(0, C)[None, :]
    t = tl.load(x + row * C + column)
    tl.store(out + tl.arange(0, R), tl.reduce(t, 1, larger))
    tl.store(out + R + row, tl.reduce(t, 1, larger, keep_dims=True))
    tl.store(out + 2 * R, tl.reduce(t, None, larger))

@triton.jit
def variance_kernel(x, out, R: tl.constexpr, C: tl.constexpr):
    t = tl.load(x + tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :])
    mean, total, n = tl.reduce((t, tl.zeros_like(t), tl.zeros_like(t) + 1), 0, welford)
    tl.store(out + tl.arange(0, C), total / n)

@triton.jit
def recurrence_kernel(x, out, C: tl.constexpr, BACK: tl.constexpr):
    t = tl.load(x + tl.arange(0, C))
    _, h = tl.associative_scan((tl.zeros_like(t) + 0.5, t), 0, linear, reverse=BACK)
    tl.store(out + tl.arange(0, C), h)

class ModelNew(torch.nn.Module):
    def forward(self, x):
        out = torch.zeros_like(x)
        %s
        return out
"""


def run(start, launch, x):
    driver = start(SOURCE % launch)
    driver.build()
    return driver.value(driver.call(x))


def test_a_maximum_along_an_axis_and_of_all(start):
    x = torch.randn(8, 32)
    found = run(start, "largest_kernel[(1,)](x, out, 8, 32)", x).flatten()
    assert torch.equal(found[:8], x.amax(1))
    assert torch.equal(found[8:16], x.amax(1))
    assert found[16] == x.max()


def test_several_values_are_combined_together(start):
    x = torch.randn(16, 8)
    found = run(start, "variance_kernel[(1,)](x, out, 16, 8)", x)
    torch.testing.assert_close(found[0], x.var(0, unbiased=False))


@pytest.mark.parametrize("back", [False, True])
def test_a_recurrence_goes_in_order(start, back):
    x = torch.randn(64)
    found = run(start, f"recurrence_kernel[(1,)](x, out, 64, {back})", x)
    expected, h = [], torch.tensor(0.0)
    for value in x.flip(0) if back else x:
        h = 0.5 * h + value
        expected.append(h)
    expected = torch.stack(expected[::-1] if back else expected)
    torch.testing.assert_close(found, expected)
