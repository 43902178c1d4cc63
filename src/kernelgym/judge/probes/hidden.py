"""Hidden inputs: what a task declares beside ``get_inputs``, and no candidate is shown.

A reference may define ``get_hidden_inputs()``: a list of argument lists. Those with the shapes of
the usual inputs are trials like any other. Those of other shapes are asked, too, but a candidate
that fails them has only been written for one shape: a finding, not an accusation.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import partial

from kernelgym.errors import TaskError
from kernelgym.judge.correctness import Correctness, Question
from kernelgym.judge.inputs import Arguments, draw_seed
from kernelgym.judge.peer import PeerError, PeerFailed
from kernelgym.judge.reference import Reference
from kernelgym.schema import Finding, Mode


class HiddenInputs:
    """Inputs that a task declares and does not show."""

    name = "hidden_inputs"
    turns_off = False

    def ask(self, correctness: Correctness, mode: Mode) -> None:
        """One call for each set of the usual shapes."""
        for question, _ in self._questions(correctness, mode, usual=True):
            correctness.trial(question)

    def ask_last(self, correctness: Correctness, modes: tuple[Mode, ...]) -> None:
        """One call for each set of other shapes: a candidate may well not survive it."""
        with suppress(PeerError):
            for question, own in self._questions(correctness, modes[0], usual=False):
                wrong = self._wrong(correctness, question)
                if wrong:
                    shapes = ", ".join(str(list(tensor.shape)) for tensor in own.tensors)
                    correctness.dossier.findings.append(
                        Finding(
                            id="one_shape_only",
                            severity="warning",
                            message=f"wrong for inputs of shape {shapes}: {wrong}"[:500],
                            evidence="outside",
                        )
                    )

    def _questions(
        self, correctness: Correctness, mode: Mode, *, usual: bool
    ) -> Iterator[tuple[Question, Arguments]]:
        reference, seed = correctness.task.reference, draw_seed()
        sets = reference.make_hidden_inputs(seed)
        if not sets:
            return
        shown = _shapes(reference.make_inputs(seed))
        correctness.note_seeds(f"{mode}/hidden", seed)
        for number, own in enumerate(sets):
            if (_shapes(own) == shown) is usual:
                make = partial(_one_of, reference, seed, number)
                key = f"{mode}/hidden/{number}"
                yield Question(mode, make, draw_seed(), key, self.name), own

    def _wrong(self, correctness: Correctness, question: Question) -> str:
        """What is wrong with the answer, or nothing."""
        try:
            verdict = correctness.ask(question).verdict
        except PeerFailed as error:
            return f"{error.failed.type}: {error.failed.message}"
        except TaskError as error:
            correctness.remark(f"{self.name}: {question.key} was left out: {error}")
            return ""
        return "" if verdict.status == "ok" else f"{verdict.status}: {verdict.detail}"


def _one_of(reference: Reference, seed: int, number: int) -> Arguments:
    return reference.make_hidden_inputs(seed)[number]


def _shapes(arguments: Arguments) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(tensor.shape) for tensor in arguments.tensors)
