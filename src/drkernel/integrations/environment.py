"""A Gymnasium-style environment: text in, text out, one candidate a step.

    env = KernelEnv([find_task("builtin/softmax")])
    observation, info = env.reset(seed=0)
    observation, reward, terminated, truncated, info = env.step(answer)

The observation is the next user message; ``info["messages"]`` is the whole conversation for a chat
model. gymnasium itself is not needed, and its spaces and wrappers are not provided. Where the gym
or the reference failed, the reward is NaN, the episode is truncated and ``info["valid"]`` is False:
a step that must not be learned from, and that no average can swallow by accident.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from drkernel import prompts
from drkernel.integrations.grading import Grade, Grading, new_entry_point
from drkernel.integrations.judging import Judge, shared_judge
from drkernel.prompts import Variant
from drkernel.types import Generation, Message, Status, Turn, as_dicts, messages_hash
from kernelgym.errors import UsageError
from kernelgym.schema import Task


@dataclass(frozen=True)
class Rules:
    """How an episode is played."""

    turns: int = 3
    """Steps until it is truncated."""
    gpu: str | None = None
    """GPU that the prompts speak of."""
    variant: Variant = "train"
    """Text of the prompts."""
    stop_at_speedup: float | None = None
    """A correct candidate that is so much faster ends the episode."""


class KernelEnv:
    """One episode at a time; make several for several at a time, they may share a judge."""

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["ansi"]}
    render_mode = "ansi"

    def __init__(
        self,
        tasks: Sequence[Task],
        *,
        rules: Rules | None = None,
        grading: Grading | None = None,
        judge: Judge | None = None,
    ) -> None:
        """``judge``: where candidates are judged; by default the gym of this process."""
        if not tasks:
            raise UsageError("an environment needs at least one task", hint="kernelgym tasks list")
        self.tasks = tuple(tasks)
        self.rules = rules or Rules()
        self.grading = grading or Grading()
        self._judge = judge
        self._random = random.Random()
        self._task: Task | None = None
        self._turns: list[Turn] = []
        self._over = True

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Begin an episode on a task drawn by ``seed``, or on ``options["task"]`` by name.

        Raises:
            UsageError: there is no task of that name.
        """
        if seed is not None:
            self._random.seed(seed)
        name = (options or {}).get("task")
        named = [task for task in self.tasks if task.name == name]
        if name is not None and not named:
            raise UsageError(f"the environment has no task {name!r}")
        self._task = named[0] if named else self._random.choice(self.tasks)
        self._turns, self._over = [], False
        messages = self._messages()
        return messages[-1].content, self._info(messages)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Judge an answer; observation, reward, terminated, truncated, info.

        Raises:
            UsageError: the episode is over, or was never begun.
        """
        if self._over or self._task is None:
            raise UsageError("the episode is over", hint="env.reset()")
        judge = self._judge or shared_judge()
        (grade,) = self.grading.grade([(self._task, action)], judge)
        self._turns.append(self._turn(action, grade))
        valid = grade.reward is not None
        speedup = self._turns[-1].speedup or 0.0
        goal = self.rules.stop_at_speedup
        terminated = grade.correct and goal is not None and speedup >= goal
        truncated = not terminated and (not valid or len(self._turns) >= self.rules.turns)
        self._over = terminated or truncated
        messages = self._messages()
        info = self._info(messages) | {"valid": valid, "outcome": grade.outcome}
        info |= {"result": grade.result, "turn": self._turns[-1]}
        reward = float("nan") if grade.reward is None else grade.reward
        return messages[-1].content, reward, terminated, truncated, info

    def render(self) -> str:
        """The conversation so far."""
        return "\n\n".join(f"[{m.role}]\n{m.content.rstrip()}" for m in self._messages())

    def close(self) -> None:
        """Nothing to release; the judge may be shared."""

    def _messages(self) -> tuple[Message, ...]:
        if self._task is None:
            raise UsageError("the episode was never begun", hint="env.reset()")
        options: dict[str, Any] = {
            "backend": self.grading.judging.backend,
            "gpu": self.rules.gpu,
            "variant": self.rules.variant,
            "entry_point": new_entry_point(self._task),
        }
        if not self._turns:
            return prompts.first_turn(self._task, **options)
        return prompts.refinement(self._task, self._turns, range(len(self._turns)), **options)

    def _info(self, messages: Sequence[Message]) -> dict[str, Any]:
        assert self._task is not None
        return {"task": self._task.name, "messages": as_dicts(messages)}

    def _turn(self, action: str, grade: Grade) -> Turn:
        messages = self._messages()
        statuses: dict[str, Status] = {
            "infrastructure": "infrastructure",
            "truncated": "truncated",
            "no_code": "no_code",
        }
        tokens = prompts.estimate_tokens(action)
        return Turn(
            index=len(self._turns),
            messages_hash=messages_hash(messages),
            prompt=messages,
            generation=Generation(text=action, finish="stop", completion_tokens=tokens),
            extraction=grade.extraction,
            result=grade.result,
            status=statuses.get(grade.outcome, "evaluated"),
            feedback=grade.feedback,
            reward=grade.reward or 0.0,
        )
