"""Reinforcement learning on real Numba speedups: does a tiny policy learn what the judge pays?

The policy (some hundred thousand parameters) is cold-started on modules for one chain of operators.
In three of four the kernel does the first operator and torch the rest, which is slower than the
reference; half add a wrong number; a third hand tensors to the kernel, which does not compile. One
in twelve fuses the whole chain, is right, and faster. Then it is trained on tasks of other sizes,
which no text of the cold start has, and validated on sizes that are in neither. The reward is
correctness plus the speedup that the judge measured, at most 3.

    python benchmarks/rl_numba.py --seeds 0 1 2 --out benchmarks/results/rl_numba.json

Printed and stored: mean reward of the first and last ten steps, what became of the validation
tasks, and how many evaluations it took. The same sources come again and again; each is judged once
a task (the store of evaluations), so a timing is one measurement however often it is paid.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

import record
from drkernel.nano.attempts import first_prompt
from drkernel.nano.model import Shape, make_model
from drkernel.nano.tokenizer import train_tokenizer
from drkernel.policy import PolicySettings, TransformersSettings
from drkernel.rollout.settings import (
    BudgetSettings,
    EpisodeSettings,
    GymSettings,
    JudgingSettings,
    RewardSettings,
    SamplingSettings,
)
from drkernel.rollout.tasks import TaskSettings
from drkernel.sft.loop import run_sft
from drkernel.sft.settings import DataSettings, SftSettings
from drkernel.tracking import read_metrics
from drkernel.train.checkpoint import Checkpoints
from drkernel.train.models import ModelSettings, quiet_libraries
from drkernel.train.optimizer import OptimizerSettings
from drkernel.train.preflight import preflight
from drkernel.train.session import run_training
from drkernel.train.settings import AlgorithmSettings, ProblemSettings, TrainSettings
from kernelgym.schema import Task

REFERENCE = """import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, y):
        return torch.sqrt(torch.square(x - y) + 1.0) * y


def get_inputs():
    return [torch.randn({rows}, 1024), torch.randn({rows}, 1024)]
"""
ANSWER = """```python
import math
import numba
import torch


@numba.njit
def kernel(x, y, out):
    for i in range(x.size):
        out[i] = {formula}


class ModelNew(torch.nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        kernel({arguments})
        return {result}
```"""
FUSED = "math.sqrt((x[i] - y[i]) ** 2 + {number}) * y[i]"
LAZY = "x[i] - y[i]"
REST = "torch.sqrt(torch.square(out) + {number}) * y"
FLAT = "*(t.numpy().ravel() for t in (x, y, out))"
COLD_ROWS, TRAIN_ROWS, VALIDATION_ROWS = range(16, 32), range(40, 44), range(50, 52)
SHAPE = Shape(hidden=96, layers=2, heads=4, kv_heads=2, head_dim=16, mlp=128, context=640)
GAIN = 0.3
"""What the last ten steps must earn more than the first ten."""


def task(rows: int) -> Task:
    """The one chain of operators at a size."""
    return Task(name=f"chain/{rows}", reference=REFERENCE.format(rows=rows))


def draft(draw: random.Random) -> str:
    """An answer that is good or bad in three independent ways; one in twelve in all of them."""
    number = draw.choice(("1.0", "0.5"))
    fused = draw.random() < 0.25
    whole = draw.random() < 0.67
    return ANSWER.format(
        formula=FUSED.format(number=number) if fused else LAZY,
        arguments=FLAT if whole else "x, y, out",
        result="out" if fused else REST.format(number=number),
    )


def cold_start(folder: Path, seed: int) -> Path:
    """A policy that writes such answers, whatever the size."""
    draw = random.Random(seed)
    chats = []
    for rows in COLD_ROWS:
        prompt = [message.model_dump() for message in first_prompt(task(rows), "numba")]
        for _ in range(8):
            chats.append([*prompt, {"role": "assistant", "content": draft(draw)}])
    data = folder / "chats.jsonl"
    data.write_text("".join(json.dumps({"messages": chat}) + "\n" for chat in chats))
    texts = (message["content"] for chat in chats for message in chat)
    tokenizer = train_tokenizer(texts, 512, context_tokens=SHAPE.context)
    tokenizer.save_pretrained(folder / "random")
    make_model(SHAPE, tokenizer, seed=seed).save_pretrained(folder / "random")
    settings = SftSettings(
        model=ModelSettings(path=str(folder / "random"), compute="fp32", device="cpu"),
        data=DataSettings(files=(str(data),), eval_share=0, max_tokens=SHAPE.context),
        optimizer=OptimizerSettings(lr=1e-2, beta2=0.95, warmup_steps=5, schedule="linear"),
        batch_rows=8,
        epochs=8,
        micro_tokens=4096,
        layout="padded",
        checkpoint_every=10_000,
        eval_every=0,
        seed=seed,
    )
    run_sft(settings, folder / "sft")
    latest = Checkpoints(folder / "sft" / "checkpoints").latest()
    assert latest is not None
    return latest.model


def settings_of(
    model: Path,
    folder: Path,
    seed: int,
    steps: int,
    trained: Sequence[int],
    validated: Sequence[int],
) -> TrainSettings:
    """Reinforcement learning on sizes that the cold start has not seen."""
    files = {}
    for name, sizes in (("train", trained), ("validation", validated)):
        files[name] = folder / f"{name}.jsonl"
        files[name].write_text("".join(task(rows).model_dump_json() + "\n" for rows in sizes))
    return TrainSettings(
        model=ModelSettings(path=str(model), compute="fp32", device="cpu"),
        policy=PolicySettings(
            name="transformers",
            transformers=TransformersSettings(device="cpu", dtype="float32", batch=32),
        ),
        gym=GymSettings(server="here", device="cpu"),
        tasks=ProblemSettings(
            train=TaskSettings(source=(str(files["train"]),)),
            validation=TaskSettings(source=(str(files["validation"]),)),
        ),
        episode=EpisodeSettings(
            turns=1,
            variant="compact",
            budget=BudgetSettings(context_tokens=SHAPE.context, min_answer_tokens=16),
            # so small a model is not sure enough of the letters of a keyword at temperature 1
            sampling=SamplingSettings(max_tokens=320, temperature=0.7),
            judging=JudgingSettings(backend="numba", trials=1),
            reward=RewardSettings(rule="paper_without_profiling"),
        ),
        algorithm=AlgorithmSettings(
            prompts=min(2, len(trained)), rollouts=16, mrs_low=0.9, mrs_high=1.1, prs=False
        ),
        # a large eps: with so few rows Adam would otherwise move every weight alike, noise included
        optimizer=OptimizerSettings(lr=1.5e-3, beta2=0.95, eps=1e-2, weight_decay=0.0),
        steps=steps,
        seed=seed,
        layout="padded",
        micro_tokens=16_384,
        eval_every=steps,
        eval_samples=8,
        checkpoint_every=steps,
    )


def one_seed(
    seed: int,
    steps: int,
    folder: Path,
    *,
    trained: Sequence[int] = TRAIN_ROWS,
    validated: Sequence[int] = VALIDATION_ROWS,
) -> dict[str, Any]:
    """Cold start and training on tasks of these sizes; what came of it."""
    folder.mkdir(parents=True, exist_ok=True)
    began = time.time()
    model = cold_start(folder, seed)
    cold_s = time.time() - began
    settings = settings_of(model, folder, seed, steps, trained, validated)
    run_training(settings, folder / "rl", preflight(settings))
    lines = read_metrics(folder / "rl" / "metrics.jsonl")
    taken = [line for line in lines if line["step"]]
    rewards, fast = ([line[name] for line in taken] for name in ("reward/mean", "fast@1.2/turn_1"))
    new = sum(line["evaluations/used"] - line["evaluations/reused"] for line in lines[1:])
    new += sum(
        line["validation/evaluations/used"] - line["validation/evaluations/reused"]
        for line in lines
        if "validation/score" in line
    )
    scores = [line["validation/score"] for line in lines if "validation/score" in line]
    return {
        "seed": seed,
        "steps": steps,
        "first_ten": float(np.mean(rewards[:10])),
        "last_ten": float(np.mean(rewards[-10:])),
        "rewards": rewards,
        "fast_1_2": fast,
        "validation": scores,
        "evaluations": int(new),
        "cold_start_s": round(cold_s, 1),
        "training_s": round(time.time() - began - cold_s, 1),
    }


def main() -> int:
    """Run the seeds; exit code 1 when one of them did not gain enough."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    quiet_libraries()
    folder = Path(tempfile.mkdtemp(prefix="rl-numba-"))
    try:
        found = [one_seed(seed, arguments.steps, folder / str(seed)) for seed in arguments.seeds]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if arguments.out:
        record.write(arguments.out, "rl_numba", {"load_average": os.getloadavg(), "runs": found})
    for run in found:
        print({name: value for name, value in run.items() if not isinstance(value, list)})
    return int(any(run["last_ten"] < run["first_ten"] + GAIN for run in found))


if __name__ == "__main__":
    sys.exit(main())
