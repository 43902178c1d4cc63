"""A world in which the whole loop runs in seconds: tiny model, small answers, a judge that counts.

An answer is a module with one number; the judge finds it correct from 3 on and the faster the
larger it is. The model has learned from a writer that takes any number: what it must find out by
itself is that large ones pay.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
from pathlib import Path

import torch

from drkernel.collect.dataset import messages_of
from drkernel.nano.model import Shape, make_model
from drkernel.nano.tokenizer import train_tokenizer
from drkernel.policy import PolicySettings, ScriptedPolicy, TransformersSettings
from drkernel.rollout import engine
from drkernel.rollout.settings import (
    BudgetSettings,
    EpisodeSettings,
    JudgingSettings,
    SamplingSettings,
)
from drkernel.sft.loop import run_sft
from drkernel.sft.settings import DataSettings, SftSettings
from drkernel.train.checkpoint import Checkpoints
from drkernel.train.models import ModelSettings, load_model, quiet_libraries
from drkernel.train.optimizer import OptimizerSettings
from drkernel.train.run_state import TrainRun, begin
from drkernel.train.session import policy_of
from drkernel.train.settings import AlgorithmSettings, ProblemSettings, TrainSettings
from kernelgym.schema import EvalResult, Failure, Finding, Outcome, Submission, Task, Timing, Trial

EPISODE = EpisodeSettings(
    turns=2,
    variant="compact",
    feedback_tokens=64,
    budget=BudgetSettings(context_tokens=700, min_answer_tokens=8),
    sampling=SamplingSettings(max_tokens=24),
    judging=JudgingSettings(backend="numba"),
)
SHAPE = Shape(hidden=48, layers=2, heads=4, kv_heads=2, head_dim=12, mlp=96, context=800)


def tasks(count: int = 8) -> list[Task]:
    """Problems that differ in one constant."""
    return [Task(name=f"task{n}", reference=f"class Model:\n    k = {n}\n") for n in range(count)]


def answer(number: int) -> str:
    return f"```python\nclass ModelNew:\n    n = {number}\n```"


class CountingJudge:
    """An `Evaluator`: deterministic, and counts what it was asked."""

    def __init__(self) -> None:
        self.sources: list[str] = []

    async def evaluate(
        self, submission: Submission, *, key: str = "", force: bool = False
    ) -> EvalResult | None:
        self.sources.append(submission.source)
        return verdict(submission.source)


def verdict(source: str) -> EvalResult:
    found = re.search(r"n = (\d)", source)
    number = int(found[1]) if found else 0
    if number == 9:
        return hack()
    if number < 3:
        failure = Failure(stage="compare", code="value_mismatch", message="too small")
        return EvalResult(task="t", outcome=Outcome.MISMATCH, correct=False, failure=failure)
    return EvalResult(
        task="t",
        outcome=Outcome.CORRECT,
        correct=True,
        speedup=number / 4,
        speedup_interval=(number / 4, number / 4),
        reference_ms=1.0,
        kernel_ms=4 / number,
        coverage=number / 10,
        displaced=number / 10,
    )


def hack() -> EvalResult:
    """All outputs were right, timed at 2x, and no own kernel ran."""
    timing = Timing(
        mode="eval",
        reference_ms=1.0,
        kernel_ms=0.5,
        speedup=2.0,
        speedup_low=1.9,
        speedup_high=2.1,
        pairs=9,
    )
    finding = Finding(
        id="no_own_kernel", severity="hack", message="no kernel of its own", evidence="inside"
    )
    failure = Failure(stage="launches", code="no_own_kernel", message="no kernel of its own")
    return EvalResult(
        task="t",
        outcome=Outcome.HACK,
        correct=False,
        failure=failure,
        findings=(finding,),
        coverage=0.0,
        displaced=0.0,
        timings=(timing,),
        trials=(Trial(index=0, mode="eval", passed=True),),
    )


def cold_start(folder: Path) -> Path:
    """A model that writes such modules with any number; its folder."""
    torch.set_num_threads(1)
    quiet_libraries()
    draw = random.Random(0)
    writer = ScriptedPolicy(lambda *_: answer(draw.randrange(9)))

    async def record() -> list[list[dict[str, str]]]:
        found = []
        async for episode in engine.run(tasks(), writer, CountingJudge(), EPISODE, samples=8):
            found.append(messages_of(episode))
        return found

    chats = asyncio.run(record())
    data = folder / "chats.jsonl"
    data.write_text("".join(json.dumps({"messages": chat}) + "\n" for chat in chats))
    tokenizer = train_tokenizer(
        (message["content"] for chat in chats for message in chat), 512, context_tokens=800
    )
    tokenizer.save_pretrained(folder / "random")
    make_model(SHAPE, tokenizer, seed=0).save_pretrained(folder / "random")
    settings = SftSettings(
        model=ModelSettings(path=str(folder / "random"), compute="fp32", device="cpu"),
        data=DataSettings(files=(str(data),), eval_share=0, max_tokens=800),
        optimizer=OptimizerSettings(lr=1e-2, beta2=0.95, warmup_steps=5, schedule="linear"),
        batch_rows=16,
        epochs=15,
        micro_tokens=2048,
        layout="padded",
        checkpoint_every=1000,
        eval_every=0,
    )
    run_sft(settings, folder / "sft")
    latest = Checkpoints(folder / "sft" / "checkpoints").latest()
    assert latest is not None
    return latest.model


def settings_of(model: Path, **changes: object) -> TrainSettings:
    values: dict[str, object] = {
        "model": ModelSettings(path=str(model), compute="fp32", device="cpu"),
        "policy": PolicySettings(
            name="transformers",
            transformers=TransformersSettings(device="cpu", dtype="float32", batch=16),
        ),
        "tasks": ProblemSettings(),
        "episode": EPISODE,
        "algorithm": AlgorithmSettings(prompts=2, rollouts=4, prs=False),
        "optimizer": OptimizerSettings(lr=2e-3),
        "steps": 3,
        "layout": "padded",
        "micro_tokens": 4096,
        "eval_every": 2,
        "eval_samples": 1,
    }
    return TrainSettings.model_validate(values | changes)


def make_run(settings: TrainSettings, out: Path, judge: object | None = None) -> TrainRun:
    out.mkdir(parents=True, exist_ok=True)
    everything = tasks(10)
    return begin(
        settings,
        out,
        loaded=load_model(settings.model, what="test"),
        policy=policy_of(settings),
        evaluator=judge or CountingJudge(),  # type: ignore[arg-type]
        tasks=everything[:8],
        validation=everything[8:],
    )
