"""Where the prompts of a step come from: tasks, splits, curricula.

What is drawn depends on the seed, the step, the round within it, and on a state that checkpoints
hold: how many tasks were handed out, and what is known of each. Imports no torch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from drkernel.rollout.tasks import load_tasks
from drkernel.train.settings import ProblemSettings
from kernelgym.errors import UsageError
from kernelgym.schema import Task
from kernelgym.tasks.curation import TaskFacts, facts_of
from kernelgym.tasks.curation_running import RunningCuration
from kernelgym.tasks.curation_schedule import draw_tasks, easy_to_hard

_ROUNDS = 1_000
"""More than the rounds of any step: (step, round) as one number."""


class Problems:
    """The training tasks of a run, and which come next."""

    def __init__(self, tasks: Sequence[Task], settings: ProblemSettings, *, seed: int) -> None:
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


def training_tasks(settings: ProblemSettings) -> list[Task]:
    """Tasks to train on.

    Raises:
        UsageError: without a source, or where nothing is left.
    """
    if not settings.train.source:
        raise UsageError(
            "there are no tasks to train on",
            hint="kernelgym tasks synth --seed 1 --count 1000 --out tasks.jsonl; "
            "then --tasks.train.source tasks.jsonl",
        )
    found = load_tasks(settings.train)
    most = settings.most_operators
    if most is not None:
        found = [task for task in found if facts_of(task).operators <= most]
        if not found:
            raise UsageError(f"no task has at most {most} operators", hint="--tasks.most-operators")
    return found


def validation_tasks(settings: ProblemSettings, train: Sequence[Task]) -> list[Task]:
    """Tasks to validate on: none of them is trained on.

    Raises:
        UsageError: for a task that is trained on, too.
    """
    chosen = settings.validation
    if not chosen.source:
        chosen = chosen.model_copy(update={"source": settings.train.source})
    found = load_tasks(chosen)
    trained = {task.content_hash for task in train}
    both = [task.name for task in found if task.content_hash in trained]
    if both:
        raise UsageError(
            f"{len(both)} validation tasks are trained on, too, {both[0]} the first",
            hint="--tasks.validation.source, or --eval-every 0 for no validation",
        )
    return found
