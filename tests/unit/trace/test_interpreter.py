"""What is added to Triton's interpreter: bfloat16, the device library, overflow, scalars."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kernelgym.trace import bfloat16, libdevice

HEAD = """
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice as generic
from triton.language.extra.cuda import libdevice
from triton.language.extra.cuda.libdevice import erf
"""


@given(st.lists(st.floats(width=32), min_size=1, max_size=20))
def test_rounding_to_bfloat16_is_that_of_torch(values):
    array = np.array(values, dtype=np.float32)
    expected = torch.from_numpy(array).to(torch.bfloat16)
    got = torch.from_numpy(bfloat16.narrow(array)).view(torch.bfloat16)
    assert torch.equal(got.isnan(), expected.isnan())
    assert torch.equal(got.nan_to_num(0), expected.nan_to_num(0))


@pytest.mark.parametrize("low", [0x0000, 0x7FFF, 0x8000, 0x8001, 0xFFFF])
def test_halfway_cases_round_to_even(low):
    bits = (np.arange(1 << 16, dtype=np.uint32) << 16) | low
    values = bits.view(np.float32)
    expected = torch.from_numpy(values.copy()).to(torch.bfloat16)
    got = torch.from_numpy(bfloat16.narrow(values)).view(torch.bfloat16)
    assert torch.equal(got.isnan(), expected.isnan())
    assert torch.equal(got.nan_to_num(0), expected.nan_to_num(0))


def test_widening_is_exact_for_every_value():
    bits = np.arange(1 << 16, dtype=np.uint16)
    expected = torch.from_numpy(bits.copy()).view(torch.bfloat16).float()
    assert torch.equal(torch.from_numpy(bfloat16.widen(bits)).nan_to_num(), expected.nan_to_num())


def run(start, kernel: str, *tensors, launch: str, **options):
    source = (
        HEAD
        + kernel
        + f"""
class ModelNew(torch.nn.Module):
    def forward(self, *tensors):
        x = tensors[0]
        out = torch.empty_like(x)
        {launch}
        return out
"""
    )
    driver = start(source, **options)
    driver.build()
    return driver.value(driver.call(*tensors))


def test_arithmetic_on_bfloat16_rounds_like_a_gpu(start):
    kernel = """
@triton.jit
def k(x, y, out, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + i)
    b = tl.load(y + i)
    c = tl.where(a > b, a * b, a - b) / (b + 3.0)
    tl.store(out + i, tl.maximum(-c, a) + tl.cast(i, tl.bfloat16))
"""
    x = torch.randn(64, dtype=torch.bfloat16)
    y = torch.randn(64, dtype=torch.bfloat16)
    got = run(start, kernel, x, y, launch="k[(1,)](x, tensors[1], out, N=64)")
    index = torch.arange(64).to(torch.bfloat16)
    expected = torch.maximum(-(torch.where(x > y, x * y, x - y) / (y + 3.0)), x) + index
    assert torch.allclose(got.float(), expected.float(), rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_matrix_products_are_right_in_every_precision(start, dtype):
    kernel = """
@triton.jit
def k(x, y, out, N: tl.constexpr):
    i = tl.arange(0, N)
    at = i[:, None] * N + i[None, :]
    acc = tl.dot(tl.load(x + at), tl.load(y + at))
    tl.store(out + at, acc.to(out.dtype.element_ty))
"""
    x, y = torch.randn(2, 32, 32).to(dtype)
    got = run(start, kernel, x, y, launch="k[(1,)](x, tensors[1], out, N=32)")
    assert torch.allclose(got.float(), x.float() @ y.float(), rtol=2e-2, atol=5e-2)


def test_atomics_on_bfloat16_are_refused_not_wrong(start):
    from candidate_driver import RequestFailed

    kernel = """
@triton.jit
def k(x, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.atomic_add(x + i, tl.load(x + i))
"""
    x = torch.ones(16, dtype=torch.bfloat16)
    with pytest.raises(RequestFailed) as caught:
        run(start, kernel, x, launch="k[(1,)](x, N=16)")
    assert caught.value.failed.unsupported


def test_the_device_library_works_under_all_its_names(start):
    kernel = """
@triton.jit
def k(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    r = libdevice.tanh(v) + generic.erf(v) + erf(v) + tl.extra.cuda.libdevice.pow(v * v + 1.0, 2.5)
    r += libdevice.fast_expf(v) + libdevice.fma(v, v, v) + libdevice.isnan(v).to(tl.float32)
    tl.store(out + i, r + libdevice.tanh(0.5))
"""
    x = torch.randn(64)
    got = run(start, kernel, x, launch="k[(1,)](x, out, N=64)").double()
    v = x.double()
    expected = v.tanh() + 2 * v.erf() + (v * v + 1) ** 2.5 + v.exp() + v * v + v + math.tanh(0.5)
    assert torch.allclose(got, expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("symbol", "arguments", "expected"),
    [
        ("__nv_tanhf", [0.5], math.tanh(0.5)),
        ("__nv_tanh", [0.5], math.tanh(0.5)),
        ("__nv_fast_expf", [1.0], math.e),
        ("__nv_fast_fdividef", [1.0, 4.0], 0.25),
        ("__nv_rsqrtf", [4.0], 0.5),
        ("__nv_roundf", [-2.5], -3.0),
        ("__nv_rintf", [2.5], 2.0),
        ("__nv_cbrtf", [-8.0], -2.0),
        ("__nv_tgammaf", [5.0], 24.0),
        ("__nv_powif", [2.0, 3.0], 8.0),
        ("__nv_dadd_rn", [1.0, 2.0], 3.0),
        ("__nv_frcp_rn", [4.0], 0.25),
        ("__nv_fmodf", [-5.0, 3.0], -2.0),
        ("__nv_remainderf", [5.0, 3.0], -1.0),
        ("__nv_fdimf", [1.0, 3.0], 0.0),
        ("__nv_float2int_rz", [-2.7], -2.0),
        ("__nv_float2int_ru", [2.1], 3.0),
        ("__nv_isinfd", [math.inf], 1.0),
        ("__nv_finitef", [math.inf], 0.0),
        ("__nv_normcdff", [0.0], 0.5),
    ],
)
def test_symbols_of_the_device_library(symbol, arguments, expected):
    function = libdevice.lookup(symbol, len(arguments))
    values = [torch.tensor([value], dtype=torch.float64) for value in arguments]
    assert float(function(*values)) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(("symbol", "arity"), [("__nv_hadd", 2), ("__nv_clz", 1), ("__nv_jn", 2)])
def test_symbols_that_are_not_known_are_not_guessed(symbol, arity):
    assert libdevice.lookup(symbol, arity) is None


def test_integers_overflow_silently(start):
    kernel = """
@triton.jit
def k(x, out, factor, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.load(x + i) * factor)
"""
    x = torch.full((16,), 1 << 30, dtype=torch.int32)
    got = run(start, kernel, x, launch="k[(1,)](x, out, 5, N=16)")
    assert torch.equal(got, x * 5)


def test_scalar_arguments_of_every_kind(start):
    kernel = """
@triton.jit
def k(x, out, flag, alpha, count, nothing, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    if flag:
        v = v * alpha
    for step in range(0, count):
        v += step
    if nothing is None:
        v += 1.0
    tl.store(out + i, v)
"""
    x = torch.randn(16)
    got = run(start, kernel, x, launch="k[(1,)](x, out, True, 0.5, 3, None, N=16)")
    assert torch.allclose(got, x * 0.5 + 4)


def test_nested_calls_of_kernels_are_interpreted(start):
    kernel = """
@triton.jit
def twice(v):
    return v + v

@triton.jit
def row(v):
    return twice(v) - tl.max(v, 0) + tl.sum(tl.zeros_like(v), 0)

@triton.jit
def k(x, out, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(out + i, row(tl.load(x + i)))
"""
    x = torch.randn(8, 16)
    got = run(start, kernel, x, launch="k[(8,)](x, out, N=16)\n        k[(8,)](x, out, N=16)")
    assert torch.allclose(got, 2 * x - x.amax(1, keepdim=True))
