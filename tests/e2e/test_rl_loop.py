"""``examples/rl_loop.py`` really runs: on its tiny model, and on a model from a folder."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("transformers")

SCRIPT = Path(__file__).parents[2] / "examples" / "rl_loop.py"
STEP = re.compile(r"step +\d+  reward (\S+)  correct: turn 1 (\S+), last (\S+)  kept (\S+)  loss")


def steps_of(*arguments):
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return [tuple(map(float, found)) for found in STEP.findall(done.stdout)]


def test_the_tiny_model_writes_answers_that_are_judged():
    steps = steps_of("--steps", "2", "--rollouts", "8", "--lessons", "100")
    assert len(steps) == 2
    # On a CPU a correct answer is worth 1: the mean over both turns lies between their means.
    for reward, first, last, kept in steps:
        assert min(first, last) - 0.01 <= reward <= max(first, last) + 0.01
        assert kept == 1.0  # sampler and trainer hold the same float32 weights
    assert any(reward > 0 for reward, *_ in steps)


def test_a_model_from_a_folder(tmp_path):
    from drkernel.nano.model import Shape, make_model
    from drkernel.nano.tokenizer import train_tokenizer

    tokenizer = train_tokenizer(["class ModelNew: import torch"], 300, context_tokens=2048)
    shape = Shape(hidden=32, layers=1, heads=2, kv_heads=1, head_dim=16, mlp=64, context=2048)
    make_model(shape, tokenizer, seed=0).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    arguments = ("--steps", "1", "--rollouts", "2", "--max-tokens", "8")
    steps = steps_of("--model", str(tmp_path), "--task", "builtin/softmax", *arguments)
    assert steps == [(0.0, 0.0, 0.0, 1.0)]
