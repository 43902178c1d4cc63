"""The reference as it is timed, with a compiler that changes nothing."""

import pytest
import torch

from kernelgym.errors import TaskError
from kernelgym.judge import baseline
from kernelgym.judge.prepare import PreparedTask
from kernelgym.schema import Task

BODY = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return x * 2
def get_inputs():
    return [torch.randn(8, 4)]
"""


@pytest.fixture
def task():
    return PreparedTask(
        Task(name="t", reference=BODY), "fp32", device="cpu", limit_s=60, memory_bytes=1 << 30
    )


def test_eager_is_a_fresh_model(task):
    baseline.prepare(task, "eager", ("eval",))
    assert not task.kept
    assert baseline.timed_model(task, "eval") is not baseline.timed_model(task, "eval")


def test_compiled_once_a_mode_and_kept(task, monkeypatch):
    compiled = []

    def compiler(graph, _inputs):
        compiled.append(graph)
        return graph.forward

    monkeypatch.setattr(baseline, "BACKEND", compiler)
    for _ in range(2):
        baseline.prepare(task, "torch_compile", ("eval", "train"))
    assert len(compiled) in (1, 2)  # one code object: a mode that changes nothing is not recompiled
    model = baseline.timed_model(task, "train")
    assert model is baseline.timed_model(task, "train")
    given = task.reference.make_inputs(1)
    (result,) = task.reference.call(model, "train", given, 0).tensors
    assert torch.equal(result, given.tensors[0] * 2)


def test_what_cannot_be_compiled_is_the_tasks_fault(task, monkeypatch):
    def refuse(_graph, _inputs):
        raise RuntimeError("no")

    monkeypatch.setattr(baseline, "BACKEND", refuse)
    with pytest.raises(TaskError) as caught:
        baseline.prepare(task, "torch_compile", ("eval",))
    assert caught.value.code == "reference_compile_error"
