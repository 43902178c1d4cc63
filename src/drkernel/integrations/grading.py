"""An answer of a model to a reward: extraction, one evaluation, a reward rule, feedback.

Not covered: turns, prompts and policies; those are `drkernel.rollout` and `KernelEnv`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from drkernel import prompts
from drkernel.algo import reward_from_result
from drkernel.integrations.judging import Judge
from drkernel.rollout.settings import JudgingSettings, RewardSettings
from drkernel.types import Extraction
from kernelgym.schema import EvalResult, Submission, Task


@dataclass(frozen=True)
class Grade:
    """What an answer is worth."""

    reward: float | None
    """None where the gym or the reference failed: there is no reward, which is not a zero."""
    extraction: Extraction
    """The source in the answer."""
    result: EvalResult | None
    """The verdict; None when nothing was judged."""
    feedback: str
    """The verdict in words."""

    @property
    def outcome(self) -> str:
        """The verdict's outcome, or ``no_code``, ``truncated``, ``infrastructure``."""
        if self.result is not None:
            return self.result.outcome.value
        if self.extraction.code is not None:
            return "infrastructure"
        return "truncated" if self.extraction.how == "truncated" else "no_code"

    @property
    def correct(self) -> bool:
        """C."""
        return self.result is not None and self.result.correct


@dataclass(frozen=True)
class Grading:
    """How answers are judged and paid."""

    judging: JudgingSettings = field(default_factory=JudgingSettings)
    """Backend, protocol, limits."""
    reward: RewardSettings = field(default_factory=RewardSettings)
    """Reward rule."""
    feedback_tokens: int = 1024
    """Longest feedback."""

    def grade(self, answers: Sequence[tuple[Task, str]], judge: Judge) -> list[Grade]:
        """Grades in order; everything that holds code is judged in one call of ``judge``."""
        found = [self.extract(task, text) for task, text in answers]
        asked = [
            self.submission(task, each.code)
            for (task, _), each in zip(answers, found, strict=True)
            if each.code is not None
        ]
        verdicts = iter(judge(asked) if asked else [])
        return [
            self.graded(each, next(verdicts) if each.code is not None else None) for each in found
        ]

    def extract(self, task: Task, text: str) -> Extraction:
        """The source in an answer."""
        return prompts.extract(text, entry_point=new_entry_point(task))

    def submission(self, task: Task, code: str) -> Submission:
        """The request for a source."""
        asked = self.judging.submission(task, code)
        return asked.model_copy(update={"entry_point": new_entry_point(task)})

    def graded(self, extraction: Extraction, result: EvalResult | None) -> Grade:
        """The grade for a source and its verdict."""
        reward: float | None = 0.0
        if result is not None:
            reward = reward_from_result(result, self.reward.built())
        elif extraction.code is not None:
            reward = None
        said = prompts.feedback(result, extraction, budget_tokens=self.feedback_tokens)
        return Grade(reward, extraction, result if reward is not None else None, said)


def new_entry_point(task: Task) -> str:
    """Name of the class to write: the reference's with ``New`` after it, as in KernelBench.

    >>> new_entry_point(Task(name="t", reference="", entry_point="Model"))
    'ModelNew'
    """
    return f"{task.entry_point}New"
