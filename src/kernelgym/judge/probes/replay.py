"""Replay probes: inputs that almost repeat themselves.

New values at the same address, and at a new one, are part of the trials. Here: a change of as few
elements as make a difference, in place (a fingerprint of samples does not see it), and the same
values at another address (a key made of addresses does not find them).
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import torch

from kernelgym.judge.answers import Expected
from kernelgym.judge.correctness import Correctness, Question
from kernelgym.judge.inputs import Arguments, draw_seed
from kernelgym.schema import Mode

STEPS = (1, 16, 256, 4096, 65_536)
"""Elements that are changed, until the answer must change, too."""


class FewElements:
    """A few elements of one input change, at the same address."""

    name = "few_elements"

    def ask(self, correctness: Correctness, mode: Mode) -> None:
        """Two calls: some inputs, then the same ones with a few elements changed."""
        seed, other, call_seed = draw_seed(), draw_seed(), draw_seed()
        draw = random.SystemRandom()
        make = correctness.task.reference.make_inputs
        first = Question(mode, lambda: make(seed), call_seed, f"{mode}/few/0", self.name)
        before = correctness.expected_of(first)
        positions = self._positions(correctness, first, make(other), before, draw)
        if positions is None:
            correctness.remark(f"{self.name}: no change of a few elements shows in the answer")
            return
        changed = Question(
            mode,
            lambda: _edited(make(seed), make(other), positions),
            call_seed,
            f"{mode}/few/1",
            self.name,
        )
        correctness.note_seeds(f"{mode}/few", seed, other)
        correctness.trial(first)
        correctness.trial(changed, stay=True)

    def _positions(
        self,
        correctness: Correctness,
        first: Question,
        other: Arguments,
        before: Expected,
        draw: random.Random,
    ) -> tuple[int, list[int]] | None:
        """Which input, and which of its elements: as few as the comparison can see."""
        sizes = [tensor.numel() if _editable(tensor) else 0 for tensor in other.tensors]
        usable = [index for index, size in enumerate(sizes) if size]
        draw.shuffle(usable)
        for count in STEPS:
            for index in usable[:3]:
                if count > max(1, sizes[index] // 4):
                    continue
                places = sorted(draw.sample(range(sizes[index]), count))
                trial = _with(first, other, (index, places))
                if not correctness.accepts(correctness.expected_of(trial), before.tensors):
                    return index, places
        return None


class SameElsewhere:
    """The same values twice, at two addresses."""

    name = "same_elsewhere"

    def ask(self, correctness: Correctness, mode: Mode) -> None:
        """Two calls on the same values."""
        seed, call_seed = draw_seed(), draw_seed()
        make = correctness.task.reference.make_inputs
        correctness.note_seeds(f"{mode}/elsewhere", seed)
        for turn in range(2):
            key = f"{mode}/elsewhere/{turn}"
            question = Question(mode, lambda: make(seed), call_seed, key, self.name)
            correctness.trial(question, move=turn == 1)


def _editable(tensor: torch.Tensor) -> bool:
    return not tensor.numel() or bool(tensor.is_contiguous())


def _with(first: Question, other: Arguments, positions: tuple[int, list[int]]) -> Question:
    return Question(
        first.mode,
        lambda: _edited(first.make(), other, positions),
        first.call_seed,
        first.key,
        first.probe,
    )


def _edited(
    arguments: Arguments, other: Arguments, positions: tuple[int, Sequence[int]]
) -> Arguments:
    """Elements of one input replaced by those of other inputs: values that may occur there."""
    index, places = positions
    where = torch.tensor(places, device=arguments.tensors[index].device)
    with torch.no_grad():
        target, source = arguments.tensors[index].view(-1), other.tensors[index].reshape(-1)
        target[where] = source[where]
    return arguments
