"""What is learnt about a reference before any candidate exists."""

import pytest
import torch

from kernelgym.errors import TaskError
from kernelgym.judge.prepare import PreparedTask
from kernelgym.sandbox import pinning
from kernelgym.schema import Task

BODY = """
import random, time, numpy
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(4)
        self.calls = 0

    def forward(self, x):
        {forward}

def get_inputs():
    return [{inputs}]
"""


def prepare(forward: str, inputs: str = "torch.randn(8, 4)", **options) -> PreparedTask:
    source = BODY.format(forward=forward, inputs=inputs)
    return PreparedTask(
        Task(name="t", reference=source),
        options.pop("precision", "fp32"),
        device="cpu",
        limit_s=30,
        memory_bytes=options.pop("memory_bytes", 1 << 30),
    )


def code_of(*args, **options) -> str:
    with pytest.raises(TaskError) as caught:
        prepare(*args, **options)
    return caught.value.code


def test_sizes():
    study = prepare("return x.repeat(3, 1), x.double()").study
    assert study.input_bytes == 512  # 128 bytes in a slot of 512
    assert study.output_bytes == 512 + 512
    assert study.state_bytes == 4 * 4 * 4 + 8


@pytest.mark.parametrize(
    "draw", ["nn.functional.dropout(x, 0.5, self.training)", "x + self.training * torch.rand(1)",
             "x + self.training * random.random()", "x + self.training * numpy.random.rand()"]
)  # fmt: skip
def test_random_in_train_mode_is_noticed(draw):
    study = prepare(f"return {draw}").study
    assert study.random_in_train
    assert set(study.noise) == {"eval"}


def test_batch_norm_is_not_random():
    study = prepare("return self.norm(x)").study
    assert not study.random_in_train
    assert set(study.noise) == {"eval", "train"}


def test_random_in_eval_mode_is_compared_under_a_shared_seed():
    study = prepare("return x + torch.rand(1)").study
    assert (study.random_in_eval, study.random_in_train) == (True, True)
    assert study.noise == {"eval": [0.0]}
    assert any("same seed" in note for note in study.notes)


def test_a_reference_that_no_seed_determines_cannot_be_judged():
    assert code_of("return x + time.time_ns() % 1000") == "reference_nondeterministic"


def test_a_reference_that_remembers_calls_is_not_random():
    study = prepare("self.calls += 1; return x * self.calls").study
    assert not study.random_in_train


def test_noise_of_fp32_is_the_distance_to_fp64():
    study = prepare("return x / 3").study
    assert 0 < study.noise["eval"][0] < 1e-6
    assert prepare("return x.relu()").study.noise["eval"] == [0.0]


def test_noise_of_bf16_is_the_distance_to_fp32():
    noise = prepare("return x / 3", precision="bf16").study.noise["eval"][0]
    assert 1e-4 < noise < 1e-1


def test_a_reference_that_refuses_another_precision_has_no_noise_and_says_so():
    study = prepare("assert x.dtype == torch.float32; return x / 3").study
    assert study.noise["eval"] == [0.0]
    assert any("noise not measured" in note for note in study.notes)


def test_what_outputs_share_memory_with():
    assert prepare("return x.view(-1)").study.shared["eval"] == {"input"}
    assert prepare("return self.norm.weight * 1, self.norm.weight").study.shared["eval"] == {
        "state"
    }
    assert prepare("return (y := x + 1), y[0]").study.shared["eval"] == {"output"}
    assert prepare("return x + 1").study.shared["eval"] == frozenset()


def test_operations_of_a_matrix_product_are_counted():
    study = prepare("return (x @ x).relu()", inputs="torch.randn(8, 8)").study
    assert study.flops == {"eval": 2 * 8**3, "train": 2 * 8**3}
    assert prepare("return x + 1").study.flops == {"eval": 0, "train": 0}


def test_operators_are_counted():
    counts = prepare("return torch.softmax(x @ x.t(), -1)").study.operators["eval"]
    assert counts["aten.mm"] == 1
    assert counts["aten._softmax"] == 1


@pytest.mark.parametrize(
    ("forward", "inputs"),
    [
        ("return x", "torch.rand(1 << 40)"),
        ("return x", "torch.zeros(300 << 20, dtype=torch.uint8), torch.ones(300 << 20)"),
        ("return x.new_zeros(400 << 20, dtype=torch.uint8)", "torch.rand(4)"),
    ],
)
def test_what_does_not_fit_is_refused(forward, inputs):
    assert code_of(forward, inputs, memory_bytes=700 << 20) == "reference_does_not_fit"


def test_large_inputs_are_refused_before_they_exist(monkeypatch):
    made = []
    monkeypatch.setattr(torch, "huge", lambda: made.append(torch.rand(1 << 40)), raising=False)
    assert code_of("return x", "torch.huge()") == "reference_does_not_fit"
    assert made == []


def test_no_tensor_among_the_inputs():
    study = prepare("return torch.full((2,), float(x))", "3").study
    assert study.input_bytes == 0
    assert study.output_bytes == 512


def test_inputs_that_are_changed_in_place_are_known():
    hidden = prepare("x.data.mul_(2); return x + 1").study
    assert hidden.changed == {"eval": [True], "train": [True]}
    assert prepare("return x + 1").study.changed["eval"] == [False]
    only_train = prepare("x.add_(float(self.training)); return x * 1").study
    assert only_train.changed == {"eval": [False], "train": [True]}


def test_switches_that_a_reference_sets_are_put_back_and_named():
    source = BODY.format(forward="return x", inputs="torch.ones(1)")
    source += "torch.backends.cudnn.deterministic = True\n"
    task = Task(name="t", reference=source)
    made = PreparedTask(task, "fp32", device="cpu", limit_s=30, memory_bytes=1 << 30)
    assert made.switches == {"cudnn_deterministic": "on"}
    assert pinning.read() == dict(pinning.PINNED)
