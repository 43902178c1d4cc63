"""Whole evaluations on a GPU: the demo's verdicts, and a reference as its own candidate."""

import tomllib
from pathlib import Path

import pytest

from kernelgym.schema import Submission
from kernelgym.tasks.registry import builtin_task
from kernelgym.worker.host import evaluate_sync

EXAMPLES = Path(__file__).parents[2] / "examples"
DEMO = tomllib.loads((EXAMPLES / "demo.toml").read_text())["candidate"]


@pytest.mark.parametrize("entry", DEMO, ids=lambda entry: Path(entry["file"]).stem)
def test_the_demo(entry):
    source = (EXAMPLES / entry["file"]).read_text()
    submission = Submission(task=builtin_task(entry["task"] + ":gpu"), source=source)
    result = evaluate_sync(submission, device="cuda:0")
    assert result.outcome == entry["outcome"], result.failure
    if result.correct:
        assert result.speedup > 0
        assert 0 < result.coverage <= 1
        assert result.profile.sentence.startswith("Custom kernel CUDA time")


@pytest.mark.parametrize("name", ["softmax", "matmul", "layer_norm"])
def test_a_reference_is_as_fast_as_itself(name):
    task = builtin_task(f"builtin/{name}:gpu")
    submission = Submission(
        task=task, source=task.reference, backend="torch", entry_point=task.entry_point
    )
    result = evaluate_sync(submission, device="cuda:0")
    assert result.correct, result.failure
    assert result.coverage == 0.0
    assert result.speedup == pytest.approx(1.0, abs=0.03)
