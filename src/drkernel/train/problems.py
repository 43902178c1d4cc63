"""Where the prompts of a step come from: files of tasks, splits, curricula.

What is drawn depends on the seed, the step, the round within it, and on a state that checkpoints
hold: how many tasks were handed out, and what is known of each. Imports no torch.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from drkernel.train.settings import TaskSettings
from kernelgym.errors import UsageError
from kernelgym.schema import Task
from kernelgym.tasks.curation import TaskFacts, facts_of
from kernelgym.tasks.curation_running import RunningCuration
from kernelgym.tasks.curation_schedule import draw_tasks, easy_to_hard
from kernelgym.tasks.synth.record import SynthTask

_ROUNDS = 1_000
"""More than the rounds of any step: (step, round) as one number."""


class Problems:
    """The training tasks of a run, and which come next."""

    def __init__(self, tasks: Sequence[Task], settings: TaskSettings, *, seed: int) -> None:
        self.tasks = {task.name: task for task in tasks}
        self.settings, self.seed = settings, seed
        self.curation = RunningCuration(facts_of(task) for task in tasks)
        self.handed_out = 0
        """Tasks given so far under "uniform": the place in the data."""

    def draw(
        self, count: int, *, step: int, round_: int = 0, without: Iterable[str] = ()
    ) -> list[Task]:
        """``count`` different tasks for a step, or fewer where there are fewer.

        ``without``: names that this step has had already.
        """
        had = set(without)
        if self.settings.curriculum == "uniform":
            names = self._next_in_order(min(count, len(self.tasks) - len(had)), had)
        else:
            names = self._weighted(count, step, round_, had)
        return [self.tasks[name] for name in names]

    def _next_in_order(self, count: int, had: set[str]) -> list[str]:
        names = sorted(self.tasks)
        chosen: list[str] = []
        while len(chosen) < count:
            each, place = divmod(self.handed_out, len(names))
            order = np.random.default_rng([self.seed, each]).permutation(len(names))
            name = names[int(order[place])]
            self.handed_out += 1
            if name not in had and name not in chosen:  # a pass may end within a step
                chosen.append(name)
        return chosen

    def _weighted(self, count: int, step: int, round_: int, had: set[str]) -> list[str]:
        facts = [fact for fact in self.curation.facts.values() if fact.task not in had]
        weights: Mapping[str, float] | None = None
        if self.settings.curriculum == "easy_to_hard":
            facts = easy_to_hard(facts, step, self.settings.curriculum_steps)
        else:
            weights = self.curation.weights()
        place = step * _ROUNDS + round_
        return draw_tasks(facts, count, seed=self.seed, step=place, weights=weights)

    def record(self, task: str, rewards: Sequence[float], correct: Sequence[bool]) -> None:
        """What a group of rollouts showed."""
        self.curation.record(task, rewards, correct)

    def state(self) -> dict[str, Any]:
        """Everything `restore` needs."""
        facts = [asdict(fact) for fact in self.curation.facts.values()]
        return {"handed_out": self.handed_out, "facts": facts}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a stored state."""
        self.handed_out = int(state["handed_out"])
        for stored in state["facts"]:
            fact = TaskFacts(**stored)
            if fact.task in self.curation.facts:
                self.curation.facts[fact.task] = fact


def training_tasks(settings: TaskSettings) -> list[Task]:
    """Tasks to train on.

    Raises:
        UsageError: without files, or where nothing is left.
    """
    if not settings.files:
        raise UsageError(
            "there are no tasks to train on",
            hint="kernelgym tasks synth --seed 1 --count 1000 --out tasks.jsonl; "
            "then --tasks.files tasks.jsonl",
        )
    found = [t for t in _read(settings.files, settings) if _in_split(t, settings.split)]
    most = settings.most_operators
    if most is not None:
        found = [task for task in found if facts_of(task).operators <= most]
    _check(found, settings)
    return found


def validation_tasks(settings: TaskSettings) -> list[Task]:
    """Tasks to validate on: never trained on, the same for every run."""
    if settings.validation_files:
        found = list(_read(settings.validation_files, settings))
    else:
        found = [t for t in _read(settings.files, settings) if _in_split(t, "validation")]
        found = [task for task in found if task.labels.get("split")]
    trained = {task.content_hash for task in training_tasks(settings)}
    if any(task.content_hash in trained for task in found):
        raise UsageError("a validation task is trained on, too", hint="another --tasks.split")
    found.sort(key=lambda task: hashlib.sha256(task.name.encode()).hexdigest())
    return found[: settings.validation_tasks]


def _in_split(task: Task, split: str) -> bool:
    return split == "any" or task.labels.get("split", split) == split


def _check(tasks: Sequence[Task], settings: TaskSettings) -> None:
    if not tasks:
        raise UsageError(
            f"no task of {', '.join(settings.files)} is left for split {settings.split!r}",
            hint="--tasks.split any, or more tasks",
        )
    names = [task.name for task in tasks]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise UsageError(f"two tasks are called {twice!r}")


def _read(files: Iterable[str], settings: TaskSettings) -> Iterator[Task]:
    for name in files:
        path = Path(name)
        if not path.is_file():
            raise UsageError(f"there is no file of tasks {path}", hint=f"ls {path.parent}")
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield _task(line, settings, f"{path}:{number}")


def _task(line: str, settings: TaskSettings, where: str) -> Task:
    try:
        data = json.loads(line)
        if "configurations" in data:
            return SynthTask.model_validate(data).task(scale=settings.scale)
        return Task.model_validate(data)
    except (ValueError, TypeError, ValidationError) as error:
        raise UsageError(
            f"{where} is no task: {str(error).splitlines()[0]}",
            hint="kernelgym tasks synth --seed 1 --count 10 --out tasks.jsonl",
        ) from error
