"""What an fp32 task allows where tensor cores may take part.

No GPU: the reference rounds its factors as tensor cores do when the switches of torch, the real
ones, allow TF32. What is taken as given is that the task lies on a GPU.
"""

import pytest
import torch

from kernelgym.judge import noise
from kernelgym.judge.answers import Examiner, Expected
from kernelgym.judge.prepare import PreparedTask
from kernelgym.sandbox import pinning
from kernelgym.schema import Task

CENTRED_PRODUCT = """
import torch
import torch.nn as nn

def tf32(x):
    return ((x.view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)

class Model(nn.Module):
    def forward(self, a, b):
        left, right = a, b
        if torch._C._get_fp32_precision_getter("cuda", "matmul") == "tf32":
            left, right = tf32(a), tf32(b)
        product = torch.mm(left, right)
        return product - product.mean(1, keepdim=True), a.exp()

def get_inputs():
    return [torch.rand(32, 4096), torch.rand(4096, 1) + 0.003 * torch.randn(4096, 32)]
"""
"""Products of the order of 1000, alike within a row: what is left is of the order of 0.1, and TF32
is off by a tenth of that."""


@pytest.fixture
def on_gpu(monkeypatch):
    monkeypatch.setattr(noise, "has_tf32", lambda dtype, _device: dtype == torch.float32)


def prepare(precision="fp32", memory_bytes=1 << 30):
    task = Task(name="t", reference=CENTRED_PRODUCT)
    return PreparedTask(task, precision, device="cpu", limit_s=30, memory_bytes=memory_bytes)


def accepts(prepared, answer_of, protocol="standard"):
    """Whether the first output that ``answer_of`` gives would pass."""
    inputs = prepared.reference.make_inputs(7)
    returned = prepared.reference.call(prepared.fresh_model(), "eval", inputs, 0)
    wide = noise.wide_call(
        prepared.reference, prepared.fresh_model(), "eval", inputs, torch.float64
    )
    expected = Expected(returned.node, returned.tensors, prepared.study.noise["eval"], wide.tensors)
    answers = [answer_of(*inputs.tensors), returned.tensors[1]]
    return Examiner(protocol, torch.float32).accepts(expected, answers)


def centred(a, b, dtype=torch.float32, mask=~0, half=0):
    """The answer from factors of which ``mask`` keeps some bits."""
    a, b = (((x.view(torch.int32) + half) & mask).view(torch.float32).to(dtype) for x in (a, b))
    product = a @ b
    return (product - product.mean(1, keepdim=True)).float()


def with_tf32(a, b):
    return centred(a, b, mask=~0x1FFF, half=0x1000)


def exact(a, b):
    return centred(a, b, torch.float64)


def too_coarse(a, b):
    """As bf16, which has three bits less than TF32."""
    return centred(a, b, mask=~0xFFFF, half=0x8000)


def nothing(a, b):
    return torch.zeros(a.shape[0], b.shape[1])


def test_the_worst_of_tf32_and_rounding(on_gpu, monkeypatch):
    there = prepare().study.noise["eval"]
    monkeypatch.undo()
    here = prepare().study.noise["eval"]
    assert there[0] > 10 * here[0] > 0
    assert there[1] == pytest.approx(here[1], rel=1)  # no product: what fp64 says
    assert there[1] > 0


@pytest.mark.parametrize(
    ("answer_of", "standard", "strict"),
    [(with_tf32, True, False), (exact, True, True), (too_coarse, False, False),
     (nothing, False, False)],
)  # fmt: skip
def test_who_passes_where_sums_cancel(on_gpu, answer_of, standard, strict):
    prepared = prepare()
    assert accepts(prepared, answer_of) == standard
    assert accepts(prepared, answer_of, "strict") == strict


def test_without_tf32_its_use_would_be_wrong():
    prepared = prepare()
    assert accepts(prepared, exact)
    assert not accepts(prepared, with_tf32)


def test_switches_are_back_afterwards(on_gpu):
    prepare()
    assert pinning.read() == dict(pinning.PINNED)


def test_an_output_that_its_noise_hides_is_named(on_gpu, monkeypatch):
    monkeypatch.setattr(noise, "worst_differences", lambda *_: [1.0, 1e-9])
    notes = prepare().study.notes
    assert any(note.startswith("output 0 has rms") for note in notes)
    assert not any(note.startswith("output 1") for note in notes)


def test_where_tf32_can_take_part():
    cpu, gpu = torch.device("cpu"), torch.device("cuda")
    assert noise.has_tf32(torch.float32, gpu)
    assert not noise.has_tf32(torch.float32, cpu)
    assert not noise.has_tf32(torch.bfloat16, gpu)
    assert "TF32" in noise.described(torch.float32, gpu)
    assert noise.described(torch.float16, gpu) == "itself in fp32"
