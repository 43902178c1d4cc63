"""The kernel that compares answers of timed calls, against torch."""

import pytest
import torch

from kernelgym.cuda import device
from kernelgym.cuda.driver import driver
from kernelgym.cuda.kernels import Kernels
from kernelgym.judge.answers import Expected
from kernelgym.judge.quick import Agreement, agrees
from kernelgym.sandbox import calling
from kernelgym.sandbox.tree import flatten


@pytest.fixture(scope="module")
def agreement():
    device.use()
    return Agreement(Kernels(driver()), driver().stream)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("count", [1, 255, 256, 1_000_003, 5_000_000])
@pytest.mark.parametrize("wrong", [None, torch.nan, torch.inf, 100.0])
def test_it_says_what_torch_says(agreement, dtype, count, wrong):
    expected = torch.randn(count, device="cuda").to(dtype)
    actual = expected * 1.001
    if wrong is not None:
        actual[int(torch.randint(count, ()))] = wrong
    flat = torch.zeros(count * 4 + 512, dtype=torch.uint8, device="cuda")
    output = calling.Returned(actual).answer(flat, 0, [])
    wanted = Expected(*flatten(expected), [])
    assert agreement.takes(actual, expected)
    assert agrees("standard", wanted, output, flat, agreement) == (wrong is None)
    assert agrees("standard", wanted, output, flat) == (wrong is None)
