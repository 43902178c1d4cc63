"""The operators of a call, and which of them are heavy."""

from __future__ import annotations

import os

import pytest
import torch
from torch.nn import functional as F

from kernelgym.sandbox.evidence import Event, unpack
from kernelgym.trace.census import HEAVY, Body, Census, heavy_class
from kernelgym.trace.recorder import Recorder


@pytest.fixture
def recorder():
    read, write = os.pipe()
    recorder = Recorder(write)
    recorder.received = lambda: list(unpack(os.read(read, 1 << 16)))
    yield recorder
    os.close(read)
    os.close(write)


def classes(recorder, function) -> set[str]:
    census = Census(recorder)
    with torch.no_grad(), census:
        function()
    return {heavy_class(name) for name in census.counts} - {None}


X = torch.randn(2, 4, 8, 8)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda: torch.nn.Linear(8, 3)(X), {"matmul"}),
        (lambda: X @ X, {"matmul"}),
        (lambda: torch.einsum("bchw,bcwk->bchk", X, X), {"matmul"}),
        (lambda: torch.nn.Conv2d(4, 2, 3)(X), {"convolution"}),
        (lambda: torch.nn.ConvTranspose2d(4, 2, 3)(X), {"convolution"}),
        (lambda: torch.softmax(X, -1), {"softmax"}),
        (lambda: F.log_softmax(X, -1), {"softmax"}),
        (lambda: F.layer_norm(X, (8,)), {"normalisation"}),
        (lambda: torch.nn.BatchNorm2d(4).eval()(X), {"normalisation"}),
        (lambda: torch.nn.BatchNorm2d(4).train()(X), {"normalisation"}),
        (lambda: F.group_norm(X, 2), {"normalisation"}),
        (lambda: F.instance_norm(X), {"normalisation"}),
        (lambda: F.scaled_dot_product_attention(X, X, X), {"attention"}),
        (lambda: F.embedding_bag(torch.zeros(2, 3).long(), X[0, 0]), {"matmul"}),
        (lambda: X.sum(), {"reduction"}),
        (lambda: X.mean(1), {"reduction"}),
        (lambda: X.argmax(1), {"reduction"}),
        (lambda: X.cumsum(1), {"reduction"}),
        (lambda: F.max_pool2d(X, 2), {"pooling"}),
        (lambda: F.relu(X) + X * 2 - X.exp(), set()),
        (lambda: torch.maximum(X, X), set()),
        (lambda: X.transpose(0, 1).contiguous().view(-1), set()),
    ],
)
def test_heavy_operators_are_recognised(recorder, function, expected):
    assert classes(recorder, function) == expected


def test_a_recurrence_is_heavy(recorder):
    lstm = torch.nn.LSTM(8, 8)
    assert classes(recorder, lambda: lstm(X[0])) & {"recurrence", "matmul"}


def test_no_operator_belongs_to_two_classes():
    names = [name for members in HEAVY.values() for name in members]
    assert len(names) == len(set(names))


def test_operators_of_the_interpreter_are_left_out(recorder):
    census = Census(recorder)
    with census:
        with recorder.paused():
            X.sum()
        X.exp()
    assert dict(census.counts) == {"aten.exp": 1}


def test_what_computes_while_a_kernel_is_launched_is_counted(recorder):
    census = Census(recorder)
    with census, recorder.interpreting(classes):
        X.clone()  # what the interpreter does itself
        X.sum()
    assert dict(census.counts) == {"aten.sum": 1}


def test_torch_in_a_body_is_not_forgotten_for_a_launch_within_it(recorder):
    recorder.own.register("", classes.__code__)
    with Census(recorder), recorder.interpreting(classes):
        recorder.enter_body()
        with recorder.interpreting(len):
            X.sum()  # the inner one's grid, say
            recorder.enter_body()
    with recorder.interpreting(classes):  # nobody counts here
        recorder.enter_body()
    failed = [r.name for r in recorder.received() if r.event is Event.FAILED]
    assert failed == ["classes", "classes"]


@pytest.mark.parametrize(("work", "is_python"), [(X.exp, True), (X.clone, False)])
def test_torch_in_a_body_shows_where_nobody_counts(recorder, work, is_python):
    recorder.own.register("", classes.__code__)
    with recorder.interpreting(classes), Body(recorder):
        recorder.enter_body()
        work()
    recorder.ran(classes, 5)
    assert bool(recorder.notes) is is_python
    assert recorder.kernel_ns == {("classes", not is_python): (1, 5)}


def test_counts_travel_as_records(recorder):
    recorder.call = 7
    recorder.operators({"aten.mm": 3})
    (record,) = recorder.received()
    assert (record.event, record.call, record.name, record.count) == (
        Event.OPERATOR,
        7,
        "aten.mm",
        3,
    )


def test_a_census_does_not_import_the_compiler_of_torch():
    import subprocess
    import sys

    script = (
        "import os, sys, torch\n"
        "from kernelgym.trace.census import Census\n"
        "from kernelgym.trace.recorder import Recorder\n"
        "with Census(Recorder(os.open('/dev/null', os.O_WRONLY))): torch.ones(3).exp()\n"
        "assert 'torch._dynamo' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_a_broken_pipe_is_ignored():
    read, write = os.pipe()
    os.close(read)
    recorder = Recorder(write)
    recorder.operators({"aten.mm": 1})
    os.close(write)
    recorder.operators({"aten.mm": 1})


def test_notes_are_said_once(recorder):
    for _ in range(3):
        recorder.note("cut (k)", "cut")
    assert recorder.notes == ["cut (k)"]
    assert [record.name for record in recorder.received()] == ["cut"]
