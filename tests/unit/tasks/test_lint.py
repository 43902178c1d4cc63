"""The task lint: each trivial solver is caught by the task that it solves, and good tasks pass."""

import textwrap

import pytest
import torch

from kernelgym.schema import Task
from kernelgym.tasks.lint import lint_task
from kernelgym.tasks.registry import builtin_task, builtin_tasks


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def task(forward: str, *, inputs: str = "torch.randn(16, 32)", init: str = "pass") -> Task:
    source = f"""\
import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
{textwrap.indent(textwrap.dedent(init), " " * 8)}

    def forward(self, x, y=None):
{textwrap.indent(textwrap.dedent(forward), " " * 8)}


def get_inputs():
    return [{inputs}]
"""
    return Task(name="test", reference=source)


def found(given: Task, **options: object) -> list[str]:
    return [finding.id for finding in lint_task(given, **options).findings]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("forward", "inputs", "expected"),
    [
        ("return torch.clamp(torch.clamp(x, max=0.0), min=0.0)", "randn", "accepts_zeros"),
        ("return torch.ones_like(x) + 0.001 * x", "randn", "accepts_ones"),
        ("return torch.full_like(x, 7.0) + 0.01 * x", "randn", "accepts_constant"),
        ("return torch.arange(32.0) + 0.01 * x", "randn", "accepts_first_answer"),
        ("return torch.relu(x)", "rand", "accepts_passthrough"),
        ("return torch.full_like(x, float('nan'))", "randn", "nonfinite_output"),
        ("return x[:0]", "randn", "empty_output"),
        ("return x + torch.rand_like(x)", "randn", "reference_nondeterministic"),
        ("return (x + 1e6) - 1e6 - x", "randn", "below_noise"),
        ("raise ValueError('no')", "randn", "reference_forward_error"),
    ],
)
def test_a_faulty_task_is_caught_for_the_right_reason(forward: str, inputs: str, expected: str):
    given = task(forward, inputs=f"torch.{inputs}(16, 32)")
    report = lint_task(given)
    assert not report.ok
    assert expected in [finding.id for finding in report.findings if finding.severity == "fault"]


def test_a_task_whose_parameters_hardly_matter():
    init = "self.scale = nn.Parameter(1.0 + 0.001 * torch.randn(32))"
    assert found(task("return x.sin() * self.scale", init=init)) == ["accepts_other_parameters"]
    init = "self.scale = nn.Parameter(torch.randn(32))"
    assert found(task("return x.sin() * self.scale", init=init)) == []


def test_stale_memory_is_an_answer_to_a_task_that_copies_bytes():
    given = task("return x.reshape(-1)[:64].reshape(8, 8).clone()")
    assert "accepts_stale_memory" in found(given)


def test_ignored_inputs_and_parameters_are_warnings():
    two = "torch.randn(16, 32), torch.randn(16, 32)"
    report = lint_task(task("return x.sin() + 1e-5 * y", inputs=two))
    assert report.ok
    assert [f.id for f in report.findings] == ["input_ignored"]
    assert "input 1" in report.findings[0].message
    init = "self.used = nn.Parameter(torch.randn(32)); self.idle = nn.Parameter(torch.randn(32))"
    report = lint_task(task("return x * self.used", init=init))
    assert [f.message.split()[0] for f in report.findings] == ["idle"]


def test_parameters_that_never_vary_are_a_warning():
    report = lint_task(task("return self.norm(x)", init="self.norm = nn.LayerNorm(32)"))
    warned = [f for f in report.findings if f.id == "constant_parameters"]
    assert len(warned) == 1
    assert "norm.weight" in warned[0].message


def test_tolerance_follows_the_scale_of_the_output():
    """Small outputs are told from zeros here, and not under absolute tolerances."""
    small = task("return torch.softmax(x, dim=-1)", inputs="torch.randn(4, 4096)")
    assert found(small) == []
    assert "accepts_zeros" in found(small, protocol="kernelbench")


def test_train_mode_counts_where_it_differs():
    """Zeros in train mode only: accepted where train mode alone decides."""
    given = task("return x.sin() * (0.0 if self.training else 1.0)")
    assert found(given) == []
    assert "accepts_zeros" in found(given, protocol="kernelbench")


def test_integer_outputs_are_compared_exactly():
    assert found(task("return torch.argsort(x, dim=-1)")) == []
    assert "accepts_constant" in found(task("return torch.zeros(4, dtype=torch.long) + 3"))


def test_the_margin_says_how_close_the_best_solver_came():
    close = lint_task(task("return 5.0 + 0.15 * x.sin()"))
    far = lint_task(task("return x.sin()"))
    assert close.ok and far.ok
    assert close.margin is not None and far.margin is not None
    assert 1.0 < close.margin < 3.0 < far.margin


def test_a_lint_leaves_the_model_as_it_was():
    """Parameters that are tried out come back; a second lint says the same."""
    init = "self.a = nn.Parameter(torch.randn(32)); self.b = nn.Parameter(torch.randn(32))"
    given = task("return x * self.a + self.b", init=init)
    first, second = lint_task(given), lint_task(given)
    assert first.findings == second.findings == ()
    assert first.margin == second.margin


EDGE_CASES = {"builtin/empty_batch": {"empty_output"}}


def test_built_in_tasks_pass():
    for entry in builtin_tasks():
        report = lint_task(builtin_task(entry.name))
        faults = {finding.id for finding in report.findings if finding.severity == "fault"}
        assert faults <= EDGE_CASES.get(entry.name, set()), (entry.name, report.findings)
