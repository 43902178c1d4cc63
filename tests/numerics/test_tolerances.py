"""What honest arithmetic does to real computations, and what each protocol makes of it.

The candidate's answers are made here, in this process; only `Examiner` is under test.
"""

from __future__ import annotations

import math

import pytest
import torch

from kernelgym.judge import compare
from kernelgym.judge.answers import Examiner, Expected
from kernelgym.judge.protocols import Allowance
from kernelgym.sandbox.messages import Output
from kernelgym.sandbox.pool import place_dense, write
from kernelgym.sandbox.tree import flatten


def tf32(tensor: torch.Tensor) -> torch.Tensor:
    """Rounded to ten bits of mantissa, as tensor cores read fp32."""
    bits = tensor.view(torch.int32)
    return ((bits + 0x1000) & ~0x1FFF).view(torch.float32)


def online_softmax(x: torch.Tensor, block: int = 64) -> torch.Tensor:
    """One pass over blocks with a running maximum, as fused kernels do it."""
    top = torch.full_like(x[:, :1], -math.inf)
    total = torch.zeros_like(top)
    for start in range(0, x.shape[1], block):
        part = x[:, start : start + block]
        new = torch.maximum(top, part.amax(1, keepdim=True))
        total = total * torch.exp(top - new) + torch.exp(part - new).sum(1, keepdim=True)
        top = new
    return torch.exp(x - top) / total


def blocked_matmul(a: torch.Tensor, b: torch.Tensor, block: int = 32) -> torch.Tensor:
    """Sum over blocks of the inner dimension, one after the other."""
    total = torch.zeros(a.shape[0], b.shape[1])
    for start in range(0, a.shape[1], block):
        total += a[:, start : start + block] @ b[start : start + block]
    return total


def sequential_sum(x: torch.Tensor) -> torch.Tensor:
    total = torch.zeros(x.shape[0])
    for column in x.t():
        total = total + column
    return total


def taylor_exp(x: torch.Tensor) -> torch.Tensor:
    return 1 + x + x**2 / 2 + x**3 / 6


torch.manual_seed(0)
A, B = torch.randn(64, 512), torch.randn(512, 48)
X = 3 * torch.randn(32, 500)
POSITIVE = torch.rand(16, 2048)
SMALL = 0.5 * torch.rand(64, 64)

HONEST = {
    "matmul in blocks": (lambda a, b: a @ b, blocked_matmul, (A, B)),
    "matmul of the transposes": (lambda a, b: a @ b, lambda a, b: (b.t() @ a.t()).t(), (A, B)),
    "online softmax": (lambda x: torch.softmax(x, 1), online_softmax, (X,)),
    "sum in another order": (lambda x: x.sum(1), sequential_sum, (POSITIVE,)),
    "variance in two passes": (
        lambda x: x.var(1, unbiased=False),
        lambda x: (x - x.mean(1, keepdim=True)).square().mean(1),
        (X,),
    ),
    "layer norm by hand": (
        lambda x: torch.nn.functional.layer_norm(x, x.shape[1:]),
        lambda x: (x - x.mean(1, keepdim=True))
        * torch.rsqrt(x.var(1, unbiased=False, keepdim=True) + 1e-5),
        (X,),
    ),
    "gelu by erf": (
        torch.nn.functional.gelu,
        lambda x: 0.5 * x * (1 + torch.erf(x * 0.7071067811865476)),
        (X,),
    ),
    "sigmoid by exp": (torch.sigmoid, lambda x: 1 / (1 + torch.exp(-x)), (X,)),
}  # fmt: skip

CHEAPER = {
    "matmul in TF32": (lambda a, b: a @ b, lambda a, b: tf32(a) @ tf32(b), (A, B)),
    "matmul in fp16": (lambda a, b: a @ b, lambda a, b: (a.half() @ b.half()).float(), (A, B)),
    "softmax in fp16": (
        lambda x: torch.softmax(x, 1),
        lambda x: torch.softmax(x.half(), 1).float(),
        (X,),
    ),
    "gelu by tanh": (
        torch.nn.functional.gelu,
        lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
        (X,),
    ),
}  # fmt: skip

WRONG = {
    "half of the sum": (lambda a, b: a @ b, lambda a, b: a[:, :256] @ b[:256], (A, B)),
    "a sum that skips blocks": (lambda x: x.sum(1), lambda x: x[:, 128:].sum(1), (POSITIVE,)),
    "a series cut short": (torch.exp, taylor_exp, (SMALL + 1,)),
    "a softmax without its last block": (
        lambda x: torch.softmax(x, 1),
        lambda x: torch.nn.functional.pad(torch.softmax(x[:, :-20], 1), (0, 20)),
        (X,),
    ),
    "zeros": (lambda x: torch.softmax(x, 1), torch.zeros_like, (X,)),
    "one column": (
        torch.sigmoid,
        lambda x: torch.sigmoid(x).index_fill(1, torch.tensor([3]), 0.0),
        (X,),
    ),
}  # fmt: skip


def verdict(protocol: str, reference, candidate, inputs) -> str:
    expected, actual = reference(*inputs), candidate(*inputs)
    oracle = reference(*(tensor.double() for tensor in inputs))
    noise = compare.difference(expected, oracle, Allowance(0.0, 1.0)).max_error
    node, tensors = flatten(actual)
    layouts, end = place_dense(tensors)
    pool = torch.zeros(end, dtype=torch.uint8)
    write(pool, layouts, tensors)
    output = Output(tree=node, tensors=tuple(layouts), devices=("cpu",))
    wanted = Expected(flatten(expected)[0], [expected], [noise], [oracle])
    return Examiner(protocol, torch.float32).examine(wanted, output, pool, 255).status


@pytest.mark.parametrize("protocol", ["standard", "strict", "kernelbench"])
@pytest.mark.parametrize("name", HONEST)
def test_honest_arithmetic_passes(protocol, name) -> None:
    assert verdict(protocol, *HONEST[name]) == "ok"


@pytest.mark.parametrize("name", CHEAPER)
def test_cheaper_arithmetic_passes_unless_strict(name) -> None:
    assert verdict("standard", *CHEAPER[name]) == "ok"
    assert verdict("strict", *CHEAPER[name]) == "value_mismatch"


@pytest.mark.parametrize("protocol", ["standard", "strict"])
@pytest.mark.parametrize("name", WRONG)
def test_wrong_arithmetic_fails(protocol, name) -> None:
    assert verdict(protocol, *WRONG[name]) == "value_mismatch"


def test_standard_does_not_see_one_and_a_half_percent_of_a_sum() -> None:
    """Its relative and its absolute part add up to twice rtol; ``strict`` is for that."""
    skips = (lambda x: x.sum(1), lambda x: x[:, 32:].sum(1), (POSITIVE,))
    assert verdict("standard", *skips) == "ok"
    assert verdict("strict", *skips) == "value_mismatch"


def test_kernelbench_accepts_zeros_for_a_wide_softmax() -> None:
    """Why it is kept for comparison only."""
    wide = (lambda x: torch.softmax(x, 1), torch.zeros_like, (torch.rand(4, 5000),))
    assert verdict("kernelbench", *wide) == "ok"
    assert verdict("standard", *wide) == "value_mismatch"


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("protocol", ["standard", "strict"])
def test_sixteen_bits_allow_one_rounding_at_the_end(dtype, protocol) -> None:
    a, b = A.to(dtype), B.to(dtype)
    expected = a @ b
    actual = (a.float() @ b.float()).to(dtype)
    oracle = a.double() @ b.double()
    noise = compare.difference(expected, oracle, Allowance(0.0, 1.0)).max_error
    node, tensors = flatten(actual)
    layouts, end = place_dense(tensors)
    pool = torch.zeros(end, dtype=torch.uint8)
    write(pool, layouts, tensors)
    output = Output(tree=node, tensors=tuple(layouts), devices=("cpu",))
    wanted = Expected(flatten(expected)[0], [expected], [noise], [oracle])
    assert Examiner(protocol, dtype).examine(wanted, output, pool, 255).status == "ok"
