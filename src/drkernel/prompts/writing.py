"""Messages of an episode, from the jinja files in ``templates/``.

The first turn is one user message; every turn after it adds the model's answer and one user message
with the feedback and what to do next. What stands in a message depends on its own turn only, so
that a longer conversation begins exactly like the shorter one before it.

Variants: ``train`` is the text for SFT, RL and evaluation alike; ``distill`` asks a teacher for a
written plan; ``compact`` is the shortest text that states the task, for models with little context.

Not here: which turns are kept (`drkernel.algo.select_context`), and chat templates
(`drkernel.prompts.chat`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal, get_args

import jinja2

from drkernel.prompts.gpus import find_gpu
from drkernel.prompts.quoting import fenced
from drkernel.types import Message, Turn
from kernelgym.errors import UsageError
from kernelgym.schema import Task

Variant = Literal["train", "distill", "compact"]
VARIANTS: tuple[Variant, ...] = get_args(Variant)


@dataclass(frozen=True)
class Language:
    """A kernel language, as a prompt speaks about it."""

    backend: str
    """Name of the backend; its texts are in ``templates/<backend>/``."""
    title: str
    """Name for the reader."""
    hardware: str
    """Where it runs, when no GPU is named."""


BACKENDS = {
    "triton": Language("triton", "Triton", "an NVIDIA GPU"),
    "numba": Language("numba", "Numba", "a CPU"),
}
"""The languages that prompts exist for."""

State = Literal["no_code", "failed", "rejected", "unmeasured", "slow", "equal", "fast"]


def first_turn(
    task: Task,
    *,
    backend: str = "triton",
    gpu: str | None = None,
    variant: Variant = "train",
    entry_point: str = "ModelNew",
) -> tuple[Message, ...]:
    """What a model is asked first.

    Args:
        task: the reference that is to be replaced.
        backend: kernel language of the answer, one of `BACKENDS`.
        gpu: name of the GPU, as CUDA reports it or short (``h200``); None when it is not known.
        variant: one of `VARIANTS`.
        entry_point: name of the class to write.

    Raises:
        UsageError: for a backend or variant without texts.
    """
    language = _language(backend)
    if variant not in VARIANTS:
        raise UsageError(f"no prompt variant {variant!r}", hint=f"one of {', '.join(VARIANTS)}")
    text = (
        _environment()
        .get_template("first_turn.jinja")
        .render(
            language=language,
            gpu=find_gpu(gpu),
            variant=variant,
            reference=fenced(task.reference, "python"),
            reference_class=task.entry_point,
            entry_point=entry_point,
        )
    )
    return (Message(role="user", content=text.strip() + "\n"),)


def refinement(
    task: Task,
    turns: Sequence[Turn],
    keep: Sequence[int],
    *,
    backend: str = "triton",
    gpu: str | None = None,
    variant: Variant = "train",
    entry_point: str = "ModelNew",
) -> tuple[Message, ...]:
    """What a model is asked after ``turns``: the first turn, then the kept answers with feedback.

    Args:
        task: as in the first turn; the other options likewise.
        turns: everything played so far.
        keep: 0-based positions in ``turns`` of what stays in context, in time order.

    Raises:
        UsageError: for a backend or variant without texts.
        ValueError: when ``keep`` is empty, out of order or out of range.
    """
    if not keep or list(keep) != sorted(set(keep)) or keep[0] < 0 or keep[-1] >= len(turns):
        raise ValueError(f"keep must name turns of {len(turns)} in time order, not {list(keep)}")
    messages = list(
        first_turn(task, backend=backend, gpu=gpu, variant=variant, entry_point=entry_point)
    )
    for index in keep:
        turn = turns[index]
        answer = turn.generation.text.strip() or "(no answer)"
        messages.append(Message(role="assistant", content=answer))
        messages.append(
            Message(role="user", content=_reply(turn, _language(backend), variant, entry_point))
        )
    return tuple(messages)


def _reply(turn: Turn, language: Language, variant: Variant, entry_point: str) -> str:
    text = (
        _environment()
        .get_template("refinement.jinja")
        .render(
            number=turn.index + 1,
            feedback=turn.feedback.strip(),
            state=state_of(turn),
            language=language,
            variant=variant,
            entry_point=entry_point,
        )
    )
    return text.strip() + "\n"


def state_of(turn: Turn) -> State:
    """Where a turn stands: decides what is asked for next.

    Speedups whose interval reaches below 1 (or that lie within 1.5% of it) count as equal.
    """
    result = turn.result
    if result is None:
        return "no_code"
    if not result.correct:
        return "rejected" if result.outcome.value == "hack" else "failed"
    if result.speedup is None:
        return "unmeasured"
    low, high = result.speedup_interval or (result.speedup, result.speedup)
    if abs(result.speedup - 1.0) <= _EQUAL or low <= 1.0 <= high:
        return "equal"
    return "fast" if result.speedup > 1.0 else "slow"


_EQUAL = 0.015


def _language(backend: str) -> Language:
    if backend not in BACKENDS:
        raise UsageError(f"no prompts for backend {backend!r}", hint=f"one of {sorted(BACKENDS)}")
    return BACKENDS[backend]


@cache
def _environment() -> jinja2.Environment:
    """Plain text, no HTML escaping: nothing here is shown in a browser."""
    return jinja2.Environment(
        loader=jinja2.PackageLoader("drkernel.prompts", "templates"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
