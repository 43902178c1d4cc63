"""A run of reinforcement learning between two steps: its parts, its checkpoints, its time.

Not here: what a step is (`drkernel.train.loop`), how episodes are played (`playing`).
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import torch

from drkernel.config import digest
from drkernel.rollout.evaluator import Evaluator
from drkernel.tracking import clean
from drkernel.train.checkpoint import Checkpoints, load_weights, restore_random
from drkernel.train.learner import Learner
from drkernel.train.models import Loaded
from drkernel.train.problems import Problems
from drkernel.train.settings import TrainSettings
from drkernel.types import Policy
from kernelgym.schema import Task


@dataclass
class TrainRun:
    """A run between two steps."""

    settings: TrainSettings
    out: Path
    policy: Policy
    evaluator: Evaluator
    learner: Learner
    problems: Problems
    validation: list[Task]
    checkpoints: Checkpoints
    stop: asyncio.Event
    done: int = 0
    """Steps that are done."""
    scores: dict[int, float] = field(default_factory=dict)
    """Validation score of every step that was validated."""
    clock: dict[str, float] = field(default_factory=dict)
    """Seconds of the stages of the step under way."""

    @property
    def finished(self) -> bool:
        """Nothing is left to do."""
        return self.done >= self.settings.steps

    @property
    def best(self) -> int | None:
        """Step of the best validation, the earliest of equals: the best of ``len(scores)``."""
        return max(self.scores, key=lambda step: (self.scores[step], -step), default=None)

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Adds what happens inside to a stage's seconds."""
        began = time.perf_counter()
        yield
        self.clock[stage] = self.clock.get(stage, 0.0) + time.perf_counter() - began


class OutOfTime(Exception):
    """The time given to this call is over."""


def begin(
    settings: TrainSettings,
    out: Path,
    *,
    loaded: Loaded,
    policy: Policy,
    evaluator: Evaluator,
    tasks: list[Task],
    validation: list[Task],
) -> TrainRun:
    """A run at its beginning; `train` takes it to its end."""
    torch.manual_seed(settings.seed)
    return TrainRun(
        settings=settings,
        out=out,
        policy=policy,
        evaluator=evaluator,
        learner=Learner(loaded, settings),
        problems=Problems(tasks, settings.tasks, seed=settings.seed),
        validation=validation,
        checkpoints=Checkpoints(out / "checkpoints", keep=settings.keep),
        stop=asyncio.Event(),
    )


def resume(run: TrainRun) -> dict[str, float]:
    """Take up the last checkpoint, where there is one; gives the metrics of its step."""
    latest = run.checkpoints.latest()
    if latest is None:
        return {}
    state, tensors = latest.state(), latest.tensors()
    load_weights(run.learner.loaded.model, latest.model)
    run.learner.optimizer.restore(tensors["optimizer"])
    run.problems.restore(state["problems"])
    run.done = latest.step
    restore_random(tensors["random"])
    metrics: dict[str, float] = state["metrics"]
    return metrics


def save(run: TrainRun, metrics: Mapping[str, float]) -> None:
    """A checkpoint of the step that was done; the best one so far stays, too."""
    loaded = run.learner.loaded
    run.checkpoints.save(
        run.done,
        model=loaded.model,
        tokenizer=loaded.tokenizer,
        tensors={"optimizer": run.learner.optimizer.state()},
        state={
            "problems": run.problems.state(),
            "metrics": {name: clean(value) for name, value in metrics.items()},
            "config": digest(run.settings),
        },
        protect=frozenset() if run.best is None else frozenset({run.best}),
    )


async def push(run: TrainRun, version: int) -> None:
    """Give the sampler the weights of now."""
    model = run.learner.loaded.model
    if run.settings.policy.name.startswith("openai"):
        folder = run.out / "weights" / f"version-{version:06d}"
        model.save_pretrained(folder)
        run.learner.loaded.tokenizer.save_pretrained(folder)
        await run.policy.push_weights(folder, version)
        return
    await run.policy.push_weights(model.state_dict(), version)


def seed_at(seed: int, *place: object) -> int:
    """A seed of its own for each place of a run: 31 bits."""
    text = "\0".join(str(part) for part in (seed, *place))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") >> 1


def deadline(run: TrainRun, minutes: float | None) -> None:
    """Set ``run.stop`` after so long; needs a running event loop."""
    if minutes is not None and math.isfinite(minutes):
        asyncio.get_running_loop().call_later(60 * minutes, run.stop.set)
