"""Precisions and protocols on a GPU: who may use TF32, and what the switches of torch are there."""

import pytest

from kernelgym.sandbox import pinning
from kernelgym.schema import Submission, Task
from kernelgym.tasks.registry import builtin_task
from kernelgym.worker.host import evaluate_sync

CENTRED = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, a, b):
        product = torch.matmul(a, b)
        return product - product.mean(1, keepdim=True)

def get_inputs():
    return [torch.rand(512, 4096), torch.rand(4096, 1) + 0.003 * torch.randn(4096, 512)]
"""
"""Products of the order of 1000, alike within a row: what is left is of the order of 0.1, and TF32
is off by a tenth of that."""

PRODUCT = """
import torch
import triton
import triton.language as tl

@triton.jit
def product(a, b, c, M, N, K, sam, sak, sbk, sbn, HOW: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[:, None]
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    total = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for start in range(0, K, 32):
        k = start + tl.arange(0, 32)
        left = tl.load(a + row * sam + k[None, :] * sak,
                       mask=(row < M) & (k[None, :] < K), other=0.0)
        right = tl.load(b + k[:, None] * sbk + column * sbn,
                        mask=(k[:, None] < K) & (column < N), other=0.0)
        total = tl.dot(left, right, total{how})
    tl.store(c + row * N + column, total.to(c.dtype.element_ty), mask=(row < M) & (column < N))

class ModelNew(torch.nn.Module):
    def forward(self, a, b):
        (M, K), N = a.shape, b.shape[1]
        c = torch.empty((M, N), device=a.device, dtype=a.dtype)
        grid = (triton.cdiv(M, 64), triton.cdiv(N, 64))
        {before}
        product[grid](a, b, c, M, N, K, *a.stride(), *b.stride(), HOW=0, BLOCK=64)
        return c{after}
"""
CENTRE = " - c.mean(1, keepdim=True)"
ANY_TF32, IEEE = "", ', input_precision="ieee"'
ROUNDED = "a, b = a.bfloat16().float(), b.bfloat16().float()"


def candidate(how=ANY_TF32, after="", before="pass"):
    return PRODUCT.replace("{how}", how).replace("{after}", after).replace("{before}", before)


def evaluate(task, source, **options):
    submission = Submission(task=task, source=source, trials=3, **options)
    return evaluate_sync(submission, device="cuda:0")


def why(result):
    return result.outcome, result.failure and result.failure.message


@pytest.mark.parametrize(
    ("protocol", "how", "right"),
    [
        ("standard", ANY_TF32, True),
        ("standard", IEEE, True),
        ("strict", ANY_TF32, False),
        ("strict", IEEE, True),
    ],
    ids=["tf32", "ieee", "strict-tf32", "strict-ieee"],
)
def test_a_product_in_fp32(protocol, how, right):
    result = evaluate(builtin_task("builtin/matmul:gpu"), candidate(how), protocol=protocol)
    assert result.outcome == ("correct" if right else "mismatch"), why(result)


@pytest.mark.parametrize(
    ("how", "before", "right"),
    [(ANY_TF32, "pass", True), (IEEE, "pass", True), (IEEE, ROUNDED, False)],
    ids=["tf32", "ieee", "bf16"],
)
def test_where_sums_cancel(how, before, right):
    """Not under ``strict``: 4,096 products added one by one are off by several times what the
    library's order of summation is, and an fp64 oracle sees that."""
    task = Task(name="test/centred", reference=CENTRED)
    result = evaluate(task, candidate(how, CENTRE, before))
    assert result.outcome == ("correct" if right else "mismatch"), why(result)
    assert "TF32" in result.provenance.flags["noise"]


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
@pytest.mark.parametrize("protocol", ["standard", "strict"])
def test_sixteen_bits(precision, protocol):
    task = builtin_task("builtin/matmul:gpu")
    result = evaluate(task, candidate(), precision=precision, protocol=protocol)
    assert result.correct, why(result)
    assert result.provenance.precision == precision
    assert result.provenance.flags["noise"] == "itself in fp32"


@pytest.mark.parametrize("protocol", ["strict", "kernelbench"])
@pytest.mark.parametrize("name", ["softmax", "matmul", "conv2d_relu", "layer_norm", "integer_mix"])
def test_a_reference_under_the_other_protocols(protocol, name):
    task = builtin_task(f"builtin/{name}:gpu")
    result = evaluate(
        task, task.reference, backend="torch", entry_point=task.entry_point, protocol=protocol
    )
    assert result.correct, why(result)
    assert result.provenance.protocol == protocol
    assert result.speedup == pytest.approx(1.0, abs=0.05)


def test_switches_of_torch_are_the_same_on_both_sides():
    sets_them = (
        "import torch\ntorch.backends.cuda.matmul.allow_tf32 = True\n"
        "torch.backends.cudnn.benchmark = True\n" + candidate(IEEE)
    )
    result = evaluate(builtin_task("builtin/matmul:gpu"), sets_them)
    assert result.correct, why(result)
    flags = result.provenance.flags
    assert dict(pinning.PINNED).items() <= flags.items()
    assert flags["candidate_switches"] == "matmul_fp32=tf32 cudnn_benchmark=on"
