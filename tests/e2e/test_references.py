"""Tasks of every kind: faulty ones are infrastructure, unusual ones are judged."""

from __future__ import annotations

from textwrap import dedent

import pytest
from cases import HONEST, HONEST_CASE, REFERENCE, task

from kernelgym.schema import EvalResult, Outcome, Submission

HEADER = "import os, sys, time, ctypes\nimport torch\nimport torch.nn as nn\n"


def evaluate(host, reference: str, source: str = HONEST, **options) -> EvalResult:
    options = {"trials": 2, "timeout_s": 20.0, "memory_mb": 1024} | options
    return host.evaluate(Submission(task=task(reference, "test/it"), source=source, **options))


FAULTY = [
    ("import_error", "import no_such_module", "reference_import_error"),
    ("no_model", "Model = 3", "reference_missing_model"),
    ("exit_on_import", "os._exit(0)", "reference_crashed"),
    ("segfault_on_import", "ctypes.string_at(8)", "reference_crashed"),
    ("hang_on_import", "while True: pass", "reference_timeout"),
    ("hang_in_c", "ctypes.CDLL(None).pause()", "reference_timeout"),
    ("eats_memory", "x = b'x' * (320 << 20)", "reference_does_not_fit"),
]


@pytest.mark.parametrize(("name", "line", "code"), FAULTY, ids=lambda value: str(value)[:20])
def test_a_faulty_reference_is_never_the_candidates_fault(hosts, name, line, code) -> None:
    host = hosts("here", "L1:impatient")
    result = evaluate(host, HEADER + line + "\n" + REFERENCE + f"\n{line}\n")
    assert (result.outcome, result.failure.code) == (Outcome.INFRASTRUCTURE, code)
    assert result.failure.stage == "reference"
    assert not result.trials
    assert host.evaluate(HONEST_CASE.submission()).outcome is Outcome.CORRECT


def test_a_reference_that_fails_later_is_infrastructure_too(host) -> None:
    """The study has seen it well; the fourth set of inputs breaks it."""
    reference = REFERENCE.replace(
        "def get_inputs():", "CALLS = []\ndef get_inputs():\n    CALLS.append(1)\n"
        "    assert len(CALLS) < 9, 'enough'"
    )  # fmt: skip
    result = evaluate(host, reference)
    assert (result.outcome, result.failure.code) == (
        Outcome.INFRASTRUCTURE,
        "reference_inputs_error",
    )
    assert "enough" in result.failure.message
    assert "reference.py" in result.failure.traceback


def test_a_task_that_is_too_large_is_refused(host) -> None:
    result = evaluate(host, REFERENCE.replace("512", "1 << 34"))
    assert result.failure.code == "reference_does_not_fit"


def test_a_task_too_large_for_this_submission_is_refused(host) -> None:
    result = evaluate(host, REFERENCE.replace("512", "20 << 20"), memory_mb=256)
    assert result.failure.code == "reference_does_not_fit"


# Each of these is its own candidate: an honest copy must be found correct, a change wrong.

UNUSUAL = {
    "in_place": ("x.mul_(2); return x", "torch.randn(6)"),
    "in_place_and_output": ("x[0] = 7; return x.sum(), y", "torch.randn(6), torch.arange(3)"),
    "several": (
        "return {'a': x, 'b': [x.sum(), (x > 0, None)], 'n': 3, 'f': 2.5}",
        "torch.rand(4)",
    ),
    "scalars_only": ("return float(x.sum()), int(x.numel())", "torch.rand(4)"),
    "integers": ("return x.cumsum(0), x.to(torch.int8), x > 2", "torch.randint(0, 9, (5,))"),
    "complex": ("return torch.fft.fft(x)", "torch.randn(8)"),
    "complex_inputs": ("return x * 1j, x.abs()", "torch.randn(8, dtype=torch.complex64)"),
    "double": ("return x.double() / 3, x.half()", "torch.rand(8)"),
    "eight_bits": ("return x.to(torch.float8_e4m3fn)", "torch.rand(8)"),
    "empty": ("return x.sum(1), x", "torch.rand(0, 3)"),
    "not_contiguous": ("return x.t() @ y", "torch.rand(4, 3).t()[:, ::2].t(), torch.rand(2, 5)"),
    "expanded": ("return x * 2", "torch.rand(4, 1).expand(4, 5)"),
    "one_tensor_twice": ("x.add_(1); return y + 0", "*[torch.rand(4)] * 2"),
    "no_tensor": ("return torch.arange(x, dtype=torch.float32)", "7"),
    "no_inputs": ("return self.linear.weight * 2", ""),
    "nested_inputs": ("return x['a'][0] + x['b']", "{'a': [torch.rand(3)], 'b': 2}"),
    "view": ("return x.view(2, 3)", "torch.rand(6)"),
    "parameter": ("return self.linear.weight", "torch.rand(6)"),
    "parameters": ("return self.linear(x)", "torch.rand(5, 4)"),
    "batch_norm": ("return self.norm(x)", "torch.randn(5, 4)"),
    "dropout": ("return self.drop(x) * 2", "torch.rand(64)"),
    "random_in_eval": ("return x + torch.randn(6)", "torch.rand(6)"),
    "counter": ("self.count += 1; return x * self.count", "torch.rand(6)"),
    "nan_and_inf": ("return torch.log(x), 1 / x.relu()", "torch.randn(16)"),
}
TEMPLATE = HEADER + dedent("""
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 3)
            self.norm = nn.BatchNorm1d(4)
            self.drop = nn.Dropout(0.5)
            self.register_buffer("count", torch.zeros((), dtype=torch.int64))

        def forward(self, *inputs):
            x, y = (*inputs, None, None)[:2]
            {forward}

    def get_inputs():
        return [{inputs}]
    """)


def reference_of(name: str) -> str:
    forward, inputs = UNUSUAL[name]
    return TEMPLATE.format(forward=forward, inputs=inputs)


@pytest.mark.parametrize("name", UNUSUAL)
def test_a_reference_is_correct_as_its_own_candidate(host, name) -> None:
    reference = reference_of(name)
    result = evaluate(host, reference, reference, entry_point="Model", backend="torch")
    assert result.outcome is Outcome.CORRECT, (result.failure, result.trials)
    modes = {trial.mode for trial in result.trials}
    assert modes == ({"eval"} if name in ("dropout", "random_in_eval") else {"eval", "train"})


@pytest.mark.parametrize(
    ("name", "old", "new", "code"),
    [
        ("in_place", "x.mul_(2); return x", "return x * 2", "input_mismatch"),
        ("in_place_and_output", "x[0] = 7", "x[0] = 8", "value_mismatch"),
        ("one_tensor_twice", "x.add_(1); return y + 0", "return y + 1", "input_mismatch"),
        ("several", "'n': 3", "'n': 4", "value_mismatch"),
        ("several", "None)", "0)", "structure_mismatch"),
        ("several", "2.5", "2.6", "value_mismatch"),
        ("complex", "fft.fft(x)", "fft.fft(x).conj().resolve_conj()", "value_mismatch"),
        ("counter", "self.count += 1", "self.count.fill_(1)", "value_mismatch"),
        ("random_in_eval", "torch.randn(6)", "torch.rand(6)", "value_mismatch"),
        ("parameters", "self.linear(x)", "torch.rand(5, 3)", "value_mismatch"),
        ("nan_and_inf", "torch.log(x)", "torch.log(x).nan_to_num()", "nan_mismatch"),
        ("view", "x.view(2, 3)", "x.view(3, 2)", "shape_mismatch"),
        ("double", "x.half()", "x.bfloat16()", "dtype_mismatch"),
    ],
)
def test_a_change_is_noticed(host, name, old, new, code) -> None:
    reference = reference_of(name)
    assert old in reference
    candidate = reference.replace(old, new)
    result = evaluate(host, reference, candidate, entry_point="Model", backend="torch")
    assert result.outcome is Outcome.MISMATCH, result.failure
    assert result.failure.code == code


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
@pytest.mark.parametrize("protocol", ["standard", "strict"])
def test_precision_reaches_both_sides(host, precision, protocol) -> None:
    reference = reference_of("parameters")
    result = evaluate(
        host, reference, reference, entry_point="Model", backend="torch", precision=precision,
        protocol=protocol,
    )  # fmt: skip
    assert result.outcome is Outcome.CORRECT, result.failure
    assert result.provenance.precision == precision


def test_init_arguments_and_their_tensors_arrive(host) -> None:
    reference = HEADER + dedent("""
        class Model(nn.Module):
            def __init__(self, weight, scale, shape, dtype=None):
                super().__init__()
                self.weight, self.scale, self.shape = weight, scale, shape
                self.inner = nn.Parameter(torch.randn(3))

            def forward(self, x):
                return (x * self.weight * self.scale + self.inner).reshape(self.shape)

        def get_inputs():
            return [torch.rand(3)]

        def get_init_inputs():
            return [torch.randn(3), 2.5, (3, 1), torch.float32]
        """)
    result = evaluate(host, reference, reference, entry_point="Model", backend="torch")
    assert result.outcome is Outcome.CORRECT, result.failure


def test_kernelbench_is_decided_in_train_mode(host) -> None:
    source = HONEST.replace("return add(x, y)", "return add(x, y if self.training else x)")
    result = evaluate(host, REFERENCE, source, protocol="kernelbench")
    assert result.outcome is Outcome.CORRECT
    assert "other_mode_mismatch" in [finding.id for finding in result.findings]
    assert evaluate(host, REFERENCE, source).outcome is Outcome.MISMATCH
