"""Backend ``numba`` and one that is built outside the package, both found as entry points."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernelgym import backends
from kernelgym.schema import EvalResult, Outcome, Submission
from kernelgym.tasks.registry import builtin_task
from kernelgym.worker.host import EvaluationHost

SWIGLU = """
import numba
import numpy as np
import torch


@numba.njit
def silu(value):
    return value / (1.0 + np.exp(-value))


@numba.njit
def swiglu(x, out):
    rows, half = out.shape
    for row in range(rows):
        for column in range(half):
            out[row, column] = silu(x[row, column]) * x[row, half + column]


class ModelNew(torch.nn.Module):
    def forward(self, x):
        out = torch.empty(x.shape[0], x.shape[1] // 2)
        swiglu(x.numpy(), out.numpy())
        return out
"""
IN_TORCH = SWIGLU.replace(
    "swiglu(x.numpy(), out.numpy())\n        return out",
    "gate, value = x.chunk(2, dim=-1)\n        return torch.nn.functional.silu(gate) * value",
)
WRONG = SWIGLU.replace("* x[row, half + column]", "+ x[row, half + column]")


LATER_WRONG = SWIGLU.replace(
    "    def forward(self, x):\n",
    "    calls = 0\n\n    def forward(self, x):\n        ModelNew.calls += 1\n",
).replace("return out", "return out if ModelNew.calls < 48 else out + 1.0")


async def judge(*sources: str, protocol: str = "standard") -> list[EvalResult]:
    task = builtin_task("builtin/swiglu")
    async with EvaluationHost(fallback=True, concurrency=1) as host:
        return [
            await host.evaluate(
                Submission(task=task, source=code, backend="numba", trials=2, protocol=protocol)
            )
            for code in sources
        ]


@pytest.fixture(autouse=True)
def needs_numba() -> None:
    pytest.importorskip("numba")


async def test_kernels_are_recognised_and_their_absence_too():
    right, torch_only, wrong, later = await judge(SWIGLU, IN_TORCH, WRONG, LATER_WRONG)
    assert right.outcome is Outcome.CORRECT, right.failure
    assert right.profile is not None
    # `silu` is compiled into its caller: what Python starts is one kernel.
    assert {(kernel.name, kernel.own) for kernel in right.profile.kernels} == {("swiglu", True)}
    assert torch_only.outcome is Outcome.HACK
    assert torch_only.findings[0].id == "no_own_kernel"
    assert wrong.outcome is Outcome.MISMATCH
    # It is timed, as a claim, and every timed call is compared like any other.
    assert right.speedup is not None
    assert right.coverage is not None
    assert 0 < right.coverage <= 1
    assert {timing.clock for timing in right.timings} == {"cpu"}
    assert right.provenance.evidence["speedup"] == "claimed"
    assert set(right.not_measured) == {"displaced"}
    assert later.outcome is Outcome.MISMATCH
    assert later.failure is not None
    assert "in a timed call" in later.failure.message


def test_it_is_found_as_an_entry_point_and_only_runs_on_a_cpu():
    backend = backends.get("numba")
    assert backend.devices == ("cpu",)
    assert backend.needs_own_kernel


OUTSIDE = '''
"""A language whose kernels are Python functions marked as such."""
from kernelgym.backends.base import Backend


class MarkedBackend(Backend):
    name = "marked"
    summary = "functions marked with @marked.kernel"
    devices = ("cpu",)

    def prepare(self, recorder, *, interpret):
        import marked

        def kernel(function):
            def call(*args):
                recorder.launch(function, (1,), 0)
                with recorder.paused():
                    return function(*args)

            return call

        marked.kernel = kernel


BACKEND = MarkedBackend()
'''
CANDIDATE = """
import marked
import torch


@marked.kernel
def double(x):
    return x + x


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return double(x)
"""
REFERENCE = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return 2.0 * x


def get_inputs():
    return [torch.randn(8)]
"""


def test_a_backend_built_outside_the_package(tmp_path: Path):
    installed = tmp_path / "installed"
    info = installed / "marked-1.0.dist-info"
    info.mkdir(parents=True)
    (installed / "marked.py").write_text(OUTSIDE, encoding="utf-8")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: marked\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[kernelgym.backends]\nmarked = marked:BACKEND\n")
    candidate, reference = tmp_path / "candidate.py", tmp_path / "reference.py"
    candidate.write_text(CANDIDATE, encoding="utf-8")
    reference.write_text(REFERENCE, encoding="utf-8")
    command = [sys.executable, "-m", "kernelgym.cli.main"]
    code = "import sys; from kernelgym.cli.main import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "eval", str(candidate)]
    done = subprocess.run(
        [*command, "--reference", str(reference), "--backend", "marked", "--json"],
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    result = EvalResult.model_validate(json.loads(done.stdout))
    assert result.backend == "marked"
    assert result.profile is not None
    assert [(kernel.name, kernel.own) for kernel in result.profile.kernels][:1] == [
        ("double", True)
    ]


async def test_timed_calls_are_compared_with_the_oracle_under_strict():
    right, later = await judge(SWIGLU, LATER_WRONG, protocol="strict")
    assert right.outcome is Outcome.CORRECT, right.failure
    assert right.speedup is not None
    assert later.outcome is Outcome.MISMATCH
    assert later.trials[-1].detail.startswith("in a timed call")
