"""Replay probes: inputs that almost repeat themselves.

New values at the same address, and at a new one, are part of the trials. Here: a change of as few
elements as make a difference, in place (a fingerprint of samples does not see it), and the same
values at another address (a key made of addresses does not find them).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import torch

from kernelgym.judge.correctness import Correctness, Question
from kernelgym.judge.inputs import Arguments, draw_seed
from kernelgym.schema import Mode

STEPS = (1, 16, 512, 16_384)
"""Elements that are changed, until the answer must change, too."""


class FewElements:
    """A few elements of one input change, at the same address."""

    name = "few_elements"

    def ask(self, correctness: Correctness, mode: Mode) -> None:
        """One call: the inputs of the call before, at their place, with a few elements changed."""
        first, other = correctness.last, draw_seed()
        assert first is not None
        make = correctness.task.reference.make_inputs
        positions = self._positions(correctness, first, make(other))
        if positions is None:
            correctness.remark(f"{self.name}: no change of a few elements shows in the answer")
            return
        correctness.note_seeds(f"{mode}/few", other)
        changed = Question(
            mode,
            lambda: _edited(first.make(), make(other), positions),
            first.call_seed,
            f"{mode}/few",
            self.name,
        )
        correctness.trial(changed, stay=True)

    def _positions(
        self,
        correctness: Correctness,
        first: Question,
        other: Arguments,
    ) -> tuple[int, list[int]] | None:
        """Which input, and which of its elements: as few as the comparison can see."""
        draw, model = random.SystemRandom(), correctness.spare_model()
        before = correctness.expected_of(first, model)
        sizes = [tensor.numel() if _editable(tensor) else 0 for tensor in other.tensors]
        usable = [index for index, size in enumerate(sizes) if size]
        draw.shuffle(usable)
        for turn, count in enumerate(STEPS if usable else ()):
            index = usable[turn % len(usable)]
            if count > max(1, sizes[index] // 4):
                continue
            places = sorted(draw.sample(range(sizes[index]), count))
            trial = _with(first, other, (index, places))
            if not correctness.accepts(correctness.expected_of(trial, model), before.tensors):
                return index, places
        return None


class SameElsewhere:
    """The same values once more, at another address."""

    name = "same_elsewhere"

    def ask(self, correctness: Correctness, mode: Mode) -> None:
        """One call: the inputs of the call before, moved."""
        assert correctness.last is not None
        again = replace(correctness.last, key=f"{mode}/elsewhere", probe=self.name)
        correctness.trial(again, move=True)


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
