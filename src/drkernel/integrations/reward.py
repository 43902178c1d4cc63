"""Rewards for other trainers, one answer a row.

verl: point ``reward.custom_reward_function`` at this file and at ``compute_score`` (or at
``compute_score_async``, which needs no thread an evaluation). It reads the rows of
``drkernel-rl-data``: ``ground_truth`` is the reference, ``extra_info`` names it.

TRL: ``GRPOTrainer(reward_funcs=KernelReward(), ...)`` with a column that holds the reference.

Where the gym or the reference fails there is no reward. TRL is told None and leaves the row out of
its group; verl knows no such value, so `Unjudged` is raised, which ends that rollout as failed
instead of teaching the model a zero. Candidates are judged where ``$KERNELGYM_SERVER`` says, else
on this machine. Not covered: several turns (see `drkernel.integrations.environment`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from drkernel.integrations.grading import Grade, Grading
from drkernel.integrations.judging import Judge, shared_judge
from drkernel.rollout.settings import JudgingSettings, RewardSettings
from kernelgym.errors import ServiceError, UsageError
from kernelgym.schema import Submission, Task


class Unjudged(ServiceError):
    """The gym or the reference failed, after every retry; there is no reward."""


def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: str,
    extra_info: Mapping[str, Any] | None = None,
    *,
    backend: str = "triton",
    rule: str = "paper",
    protocol: str = "standard",
    judge: Judge | None = None,
    **_: object,
) -> dict[str, float | str]:
    """The reward of one answer, as verl asks for it.

    Args:
        data_source: name of the data set, kept as the task's origin.
        solution_str: the whole answer.
        ground_truth: source of the reference.
        extra_info: may hold ``entry_point`` and a name (``module_name``, ``name`` or ``uuid``).
        backend: kernel language.
        rule: one of `drkernel.algo.REWARD_RULES`.
        protocol: tolerances and modes.
        judge: where to judge; by default the gym of this process.

    Returns:
        ``score`` and what it was made of, the same keys every time. Speedup and coverage are NaN
        where they were not measured.

    Raises:
        Unjudged: there is no reward.
    """
    grading = _grading(backend, rule, protocol)
    task = task_of(data_source, ground_truth, extra_info)
    (grade,) = grading.grade([(task, solution_str)], judge or shared_judge())
    return _as_row(grade, task)


async def compute_score_async(
    data_source: str,
    solution_str: str,
    ground_truth: str,
    extra_info: Mapping[str, Any] | None = None,
    *,
    backend: str = "triton",
    rule: str = "paper",
    protocol: str = "standard",
    **_: object,
) -> dict[str, float | str]:
    """As `compute_score`, for reward managers that await; any number at once."""
    grading = _grading(backend, rule, protocol)
    task = task_of(data_source, ground_truth, extra_info)
    extraction = grading.extract(task, solution_str)
    result = None
    if extraction.code is not None:
        submission: Submission = grading.submission(task, extraction.code)
        result = await shared_judge().evaluate(submission)
    return _as_row(grading.graded(extraction, result), task)


def task_of(
    data_source: str, ground_truth: str, extra_info: Mapping[str, Any] | None = None
) -> Task:
    """The task that a row describes."""
    info = extra_info or {}
    named = [info.get(key) for key in ("module_name", "name", "uuid", "problem_id")]
    name = next((str(value) for value in named if value not in (None, "")), "reference")
    return Task(
        name=name[:200],
        reference=ground_truth,
        entry_point=str(info.get("entry_point") or "Model"),
        origin=str(data_source),
    )


def _grading(backend: str, rule: str, protocol: str) -> Grading:
    return Grading(
        judging=JudgingSettings.model_validate({"backend": backend, "protocol": protocol}),
        reward=RewardSettings.model_validate({"rule": rule}),
    )


def _as_row(grade: Grade, task: Task) -> dict[str, float | str]:
    if grade.reward is None:
        raise Unjudged(
            f"no verdict on an answer to {task.name}: the gym or the reference failed",
            hint="kernelgym doctor, kernelgym tasks lint",
        )
    result = grade.result
    return {
        "score": grade.reward,
        "correct": float(grade.correct),
        "speedup": _number(result.speedup if result else None),
        "coverage": _number(result.coverage if result else None),
        "hack": float(grade.outcome == "hack"),
        "outcome": grade.outcome,
    }


def _number(value: float | None) -> float:
    return float("nan") if value is None else float(value)


class KernelReward:
    """A reward function for TRL: one float for each completion, None where there is no reward."""

    def __init__(
        self,
        *,
        reference_column: str = "reference",
        grading: Grading | None = None,
        judge: Judge | None = None,
        name: str = "kernel_reward",
    ) -> None:
        """``reference_column``: column of the data set with the reference's source. Further columns
        that are used where they exist: ``entry_point`` and ``name``."""
        self.__name__ = name
        self.reference_column = reference_column
        self.grading = grading or Grading()
        self._judge = judge

    def __call__(
        self,
        prompts: Sequence[Any],
        completions: Sequence[Any],
        *,
        log_metric: Callable[[str, float], None] | None = None,
        **columns: Any,
    ) -> list[float | None]:
        """Rewards in the order of ``completions``, which are texts or lists of messages.

        Raises:
            UsageError: the data set has no column with references.
        """
        references = columns.get(self.reference_column)
        if references is None:
            raise UsageError(
                f"the data set has no column {self.reference_column!r} with the references",
                hint="KernelReward(reference_column=...)",
            )
        texts = [_text(completion) for completion in completions]
        tasks = [
            task_of("trl", reference, _row(columns, index))
            for index, reference in enumerate(references)
        ]
        grades = self.grading.grade(
            list(zip(tasks, texts, strict=True)), self._judge or shared_judge()
        )
        if log_metric is not None:
            _log(grades, log_metric)
        return [grade.reward for grade in grades]


def _text(completion: Any) -> str:
    """What the model wrote: a text, or the assistant's messages."""
    if isinstance(completion, str):
        return completion
    said = [m["content"] for m in completion if m.get("role") == "assistant" and m.get("content")]
    return str(said[-1]) if said else ""


def _row(columns: Mapping[str, Any], index: int) -> dict[str, Any]:
    return {
        name: columns[name][index]
        for name in ("entry_point", "name")
        if isinstance(columns.get(name), Sequence)
    }


def _log(grades: Sequence[Grade], log_metric: Callable[[str, float], None]) -> None:
    judged = [grade for grade in grades if grade.reward is not None]
    log_metric("kernel/unjudged", 1 - len(judged) / len(grades))
    if judged:
        log_metric("kernel/correct", sum(grade.correct for grade in judged) / len(judged))
        hacks = sum(grade.outcome == "hack" for grade in judged)
        log_metric("kernel/hack", hacks / len(judged))
