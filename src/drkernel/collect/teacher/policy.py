"""The teacher as a policy: a first attempt by set probabilities, then reactions to what was said.

It sees messages only, as a model does. The reference is read from the first prompt, its last module
from its last answer, the verdict from the words of the last message. The same seed, key and
messages give the same answer.

    it was a hack                     an honest kernel
    it failed, and had a mistake      the same without the mistake
    it failed, and looked sound       less: fewer kernels, then torch and a copy
    it was right                      more: fuse, then matrix products, then other block sizes
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from drkernel import prompts
from drkernel.collect.teacher import flaws
from drkernel.collect.teacher.grouping import LEVELS
from drkernel.collect.teacher.reading import Reference, read_reference
from drkernel.collect.teacher.writing import (
    Language,
    Plan,
    read_plan,
    write_decoy,
    write_module,
)
from drkernel.config import Section
from drkernel.types import Generation, Message, Sampling
from kernelgym.errors import UsageError

if TYPE_CHECKING:
    from torch import Tensor

CONTEXT_TOKENS = 65_536
Verdict = Literal["correct", "failed", "hack", "no_code"]
Kind = Literal["naive", "lazy", "wrong", "broken", "decoy", "silent", "cut", "sound"]
_BLOCKS, _WARPS, _STAGES = (256, 512, 1024, 2048), (2, 4, 8), (2, 3, 4)
_BLOCK = re.compile(r"^`{3,}[^\n]*\n(.*?)^`{3,}\s*$", re.MULTILINE | re.DOTALL)


class TeacherSettings(Section):
    """Weights of first attempts, and how it goes on."""

    naive: float = Field(default=0.3, ge=0)
    """A kernel for every operation, nothing fused."""
    lazy: float = Field(default=0.15, ge=0)
    """One operation in a kernel, everything else in torch."""
    wrong: float = Field(default=0.2, ge=0)
    """Wrong values."""
    broken: float = Field(default=0.15, ge=0)
    """Does not compile, or raises."""
    decoy: float = Field(default=0.1, ge=0)
    """A kernel whose result nobody reads."""
    silent: float = Field(default=0.03, ge=0)
    """No code at all."""
    cut: float = Field(default=0.02, ge=0)
    """An answer that was cut off."""
    sound: float = Field(default=0.05, ge=0)
    """Fused and right at once."""
    repair: float = Field(default=0.85, ge=0, le=1)
    """Chance that a mistake that was reported is gone in the next turn."""
    relapse: float = Field(default=0.1, ge=0, le=1)
    """Chance of a new mistake in a turn that should improve a correct kernel."""

    def first_kind(self, draw: random.Random) -> Kind:
        """Kind of a first attempt."""
        weights = {k: getattr(self, k) for k in Kind.__args__}  # type: ignore[attr-defined]
        if not sum(weights.values()):
            raise UsageError("the teacher needs at least one kind of attempt with a weight above 0")
        kind: Kind = draw.choices(list(weights), list(weights.values()))[0]
        return kind


@dataclass(frozen=True)
class Attempt:
    """What the teacher is about to write."""

    plan: Plan
    kind: Kind
    words: str


class ScriptedTeacher:
    """A `Policy`; see the module."""

    def __init__(
        self,
        settings: TeacherSettings | None = None,
        *,
        language: Language = "triton",
        context_tokens: int = CONTEXT_TOKENS,
    ) -> None:
        self.settings = settings or TeacherSettings()
        self.language = language
        self.name = f"teacher:{language}"
        self.context_tokens = context_tokens

    async def generate(
        self, messages: Sequence[Message], sampling: Sampling, *, key: str
    ) -> Generation:
        """As `Policy.generate`."""
        text = self.answer(messages, f"{sampling.seed or 0}\0{key}")
        finish: Literal["stop", "length"] = "stop"
        tokens = prompts.estimate_tokens(text)
        if tokens > sampling.max_tokens:
            text, finish = text[: 3 * sampling.max_tokens], "length"
            tokens = sampling.max_tokens
        elif text.count("```") == 1:
            finish = "length"
        return Generation(
            text=text,
            finish=finish,
            prompt_tokens=self.count_tokens(messages),
            completion_tokens=max(1, tokens),
        )

    def count_tokens(self, messages: Sequence[Message]) -> int:
        """An upper estimate."""
        return sum(prompts.estimate_tokens(message.content) + 4 for message in messages)

    async def push_weights(self, state: Mapping[str, Tensor] | str | Path, version: int) -> None:
        """It has none."""
        raise UsageError("the scripted teacher has no weights that could be changed")

    async def aclose(self) -> None:
        """Nothing to release."""

    def answer(self, messages: Sequence[Message], seed: str) -> str:
        """The answer to a conversation."""
        draw = random.Random(hashlib.sha256(seed.encode()).digest())
        source = _reference_source(messages[0 if messages[0].role == "user" else 1].content)
        reference = read_reference(source)
        if reference is None:
            return _said("The reference is not straight-line code; I only copy its result in a "
                         "kernel of my own.", _wrapped(source, self.language))  # fmt: skip
        answers = [message.content for message in messages if message.role == "assistant"]
        attempt = (
            self._react(reference, answers[-1], messages[-1].content, draw)
            if answers
            else self._first(draw)
        )
        return self._write(reference, attempt, draw)

    def _first(self, draw: random.Random) -> Attempt:
        kind = self.settings.first_kind(draw)
        level = {"naive": 1, "lazy": 0}.get(kind, draw.choice((1, 2)))
        plan = Plan(level=level, chosen=draw.randrange(8), block=draw.choice(_BLOCKS))
        words = {
            "naive": "One kernel for each operation, to have something that works.",
            "lazy": "I write one operation as a kernel and leave the rest to torch.",
            "silent": "The plan is to fuse the element-wise operations. I would write one kernel "
            "over all elements, with a mask at the end.",
        }.get(kind, "I fuse what can be computed in one pass over the data.")
        return Attempt(plan, kind, words)

    def _react(self, reference: Reference, last: str, said: str, draw: random.Random) -> Attempt:
        found = prompts.extract(last)
        plan = read_plan(found.code or "") or Plan(level=1)
        verdict = verdict_of(said) if found.code else "no_code"
        if verdict == "no_code":
            return Attempt(plan, "sound", "This time with the whole module in one block.")
        if verdict == "hack":
            words = "The result must come from the kernel: now it does the work."
            return Attempt(replace(plan, level=max(1, plan.level)), "sound", words)
        if verdict == "failed":
            return self._repair(reference, found.code or "", plan, draw)
        return self._improve(reference, found.code or "", plan, draw)

    def _repair(self, reference: Reference, code: str, plan: Plan, draw: random.Random) -> Attempt:
        if code.strip() != write_module(reference, plan, self.language).strip():
            if draw.random() < self.settings.repair:
                return Attempt(plan, "sound", "I found the mistake and corrected it.")
            kind: Kind = draw.choice(("wrong", "broken"))
            return Attempt(plan, kind, "I believe this was the mistake.")
        less = replace(plan, level=max(0, plan.level - 1), chosen=plan.chosen + 1, block=256)
        return Attempt(less, "sound", "The code looked right to me; I go back to simpler kernels.")

    def _improve(self, reference: Reference, code: str, plan: Plan, draw: random.Random) -> Attempt:
        kind: Kind = "sound"
        if draw.random() < self.settings.relapse:
            kind = draw.choice(("wrong", "broken"))
        for level in range(max(2, plan.level + 1), max(LEVELS) + 1):
            more = replace(plan, level=level)
            # A level that changes nothing for this reference is skipped.
            if _body(write_module(reference, more, self.language)) != _body(code):
                return Attempt(more, kind, _WORDS_OF_LEVEL[level])
        tuned = replace(
            plan,
            block=draw.choice([b for b in _BLOCKS if b != plan.block]),
            warps=draw.choice(_WARPS),
            stages=draw.choice(_STAGES),
        )
        return Attempt(tuned, kind, f"I try block size {tuned.block} with {tuned.warps} warps.")

    def _write(self, reference: Reference, attempt: Attempt, draw: random.Random) -> str:
        if attempt.kind == "silent":
            return attempt.words
        if attempt.kind == "decoy":
            return _said(attempt.words, write_decoy(reference, attempt.plan, self.language))
        source = write_module(reference, attempt.plan, self.language)
        if attempt.kind == "wrong":
            source = flaws.wrong(source, draw)
        elif attempt.kind == "broken":
            source = flaws.broken(source, draw)
        said = _said(attempt.words, source)
        return said[: said.rindex("    def forward")] if attempt.kind == "cut" else said


_WORDS_OF_LEVEL = {
    2: "Neighbouring operations now share one kernel, so that values stay in registers.",
    3: "The matrix product becomes a tiled kernel with what follows it fused in.",
}


def _body(source: str) -> str:
    """A module without the line that tells its plan."""
    return source.strip().partition("\n")[2]


def verdict_of(said: str) -> Verdict:
    """What the last message says about the last answer, by the first words of its feedback."""
    if "Rejected" in said:
        return "hack"
    if "No code to judge" in said:
        return "no_code"
    return "correct" if re.search(r"^Correct: ", said, re.MULTILINE) else "failed"


def _said(words: str, source: str) -> str:
    return f"{words}\n\n```python\n{source.strip()}\n```\n"


def _reference_source(prompt: str) -> str:
    """The last block of the first prompt that makes inputs."""
    found: list[str] = _BLOCK.findall(prompt)
    blocks = [block for block in found if "class Model" in block]
    with_inputs = [block for block in blocks if "def get_inputs" in block]
    return (with_inputs or blocks or [""])[-1]


def _wrapped(source: str, language: Language) -> str:
    """The reference as a base class, and a kernel that copies what it returns."""
    plan = Plan(level=1)
    copy = Reference("", ("x",), (), "x", ())
    module = write_module(copy, plan, language)
    kernels, _, _ = module.partition("class ModelNew")
    body = re.sub(r"^(import torch|import torch\.nn as nn)\n", "", source, flags=re.MULTILINE)
    return (
        f"{kernels.rstrip()}\n\n\n{body.strip()}\n\n\nclass ModelNew(Model):\n"
        "    def forward(self, *inputs):\n        return copy_1(super().forward(*inputs))\n"
    )
