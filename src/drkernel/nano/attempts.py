"""First answers of the scripted teacher to synthetic programs: chat rows without a gym.

What the teacher writes first does not depend on a verdict, and what it is asked is text: the
programs are drawn and not run. Programs are kept apart by their set of operators, so that a
validation or test combination is in no training row. Imports no torch.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from drkernel import prompts
from drkernel.collect.teacher.policy import ScriptedTeacher
from drkernel.collect.teacher.writing import Language
from drkernel.nano.settings import AttemptSettings
from drkernel.rollout.directory import write_whole
from drkernel.types import Message
from kernelgym.schema import Task
from kernelgym.tasks.synth.compose import compose
from kernelgym.tasks.synth.record import Split

PATIENCE = 30
"""Draws for each program wanted, and a thousand more: easy ones are few and come again."""


@dataclass(frozen=True)
class Program:
    """A program to write for."""

    task: Task
    operators: tuple[str, ...]


def programs(
    seed: int, count: int, *, split: Split, easiest: int = 1, hardest: int = 3
) -> Iterator[Program]:
    """Up to ``count`` different programs of a split."""
    seen: set[str] = set()
    for number in range(1_000 + PATIENCE * count):
        if len(seen) >= count:
            return
        draft = compose(seed, number, range(easiest, hardest + 1))
        if draft is None or draft.record.split != split or draft.record.model in seen:
            continue
        seen.add(draft.record.model)
        yield Program(draft.record.task(), draft.record.operators)


def first_prompt(task: Task, backend: str) -> tuple[Message, ...]:
    """What nano is asked, in training and ever after."""
    return prompts.first_turn(task, backend=backend, variant="compact")


def write_attempts(
    path: Path, settings: AttemptSettings, *, backend: Language, split: Split, count: int
) -> int:
    """One chat row a program; returns how many there are."""
    teacher = ScriptedTeacher(settings.teacher, language=backend)
    lines = []
    drawn = programs(
        settings.seed, count, split=split, easiest=settings.easiest, hardest=settings.hardest
    )
    for program in drawn:
        messages = first_prompt(program.task, backend)
        answer = teacher.answer(messages, f"{settings.seed}\0{program.task.name}")
        chat = [*messages, Message(role="assistant", content=answer)]
        row = {
            "messages": [message.model_dump() for message in chat],
            "original_python_code": program.task.reference,
            "operators": " ".join(program.operators),
        }
        lines.append(json.dumps(row) + "\n")
    write_whole(path, "".join(lines))
    return len(lines)
