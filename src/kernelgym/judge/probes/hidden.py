"""Hidden inputs: what a task declares beside ``get_inputs``, and no candidate is shown.

A reference may define ``get_hidden_inputs()``: a list of argument lists. Those with the shapes of
the usual inputs are trials like any other. Those of other shapes are asked, too, but a candidate
that fails them has only been written for one shape: a finding, not an accusation.
"""

from __future__ import annotations

from kernelgym.errors import TaskError
from kernelgym.judge.correctness import Correctness, Question
from kernelgym.judge.inputs import Arguments, draw_seed
from kernelgym.judge.peer import PeerFailed
from kernelgym.schema import Finding, Mode


class HiddenInputs:
    """Inputs that a task declares and does not show."""

    name = "hidden_inputs"

    def ask(self, correctness: Correctness, mode: Mode) -> None:
        """One call each."""
        reference, seed = correctness.task.reference, draw_seed()
        sets = reference.make_hidden_inputs(seed)
        usual = _shapes(reference.make_inputs(seed)) if sets else ()
        for number, own in enumerate(sets):
            key = f"{mode}/hidden/{number}"

            def make(number: int = number) -> Arguments:
                return reference.make_hidden_inputs(seed)[number]

            question = Question(mode, make, draw_seed(), key, self.name)
            try:
                if _shapes(own) == usual:
                    correctness.trial(question)
                else:
                    self._ask_other_shape(correctness, question, own)
            except TaskError as error:
                correctness.remark(f"{self.name}: set {number} was left out: {error}")
        if sets:
            correctness.note_seeds(f"{mode}/hidden", seed)

    def _ask_other_shape(
        self, correctness: Correctness, question: Question, own: Arguments
    ) -> None:
        try:
            verdict = correctness.ask(question).verdict
            status, detail = verdict.status, verdict.detail
        except PeerFailed as error:
            status, detail = "raised", str(error)
        if status != "ok":
            shapes = ", ".join(str(list(tensor.shape)) for tensor in own.tensors)
            correctness.dossier.findings.append(
                Finding(
                    id="one_shape_only",
                    severity="warning",
                    message=f"wrong for inputs of shape {shapes}: {status}: {detail}"[:500],
                    evidence="outside",
                )
            )


def _shapes(arguments: Arguments) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(tensor.shape) for tensor in arguments.tensors)
