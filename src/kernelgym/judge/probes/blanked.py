"""The candidate once more, in a fresh process, from a source whose kernels have no bodies.

`Ablation` turns kernels off inside the candidate's process, where a candidate that knows this
harness can find out that they are off. Here nothing is turned off: the process is like the first
one, and the judge hands it another text. An answer that is right without any kernel came from
somewhere else.

A call that launches none of the hollow kernels says nothing: code that tests its kernel once,
before it relies on it, has found it broken and gone over to torch, and is honest.

Here, and not there, tasks whose state moves with calls are asked about, too: both sides start anew.

Only where a process is cheap: without a GPU. There the clock has its say (coverage). Not covered:
candidates that look at what their kernels have written before they go on.
"""

from __future__ import annotations

from kernelgym.judge.correctness import Correctness, Question
from kernelgym.judge.inputs import draw_seed
from kernelgym.judge.peer import PeerError
from kernelgym.judge.probes.ablation import claims_own, tells_apart
from kernelgym.sandbox.messages import Prepare
from kernelgym.schema import Finding, Mode
from kernelgym.submission.blanked import Blanked, blank

ZEROED = Prepare(fill=0x00)


class BlankedKernels:
    """Right answers from a source without kernels."""

    name = "blanked_kernels"

    def source_for(self, source: str, own: set[str]) -> Blanked | None:
        """The source to load; None when there is nothing to take out of it.

        ``own``: names that launches have claimed. Own kernels are functions of the source, under
        the names that they have there: a name that it does not have takes nothing away.
        """
        return blank(source, own) if own else None

    def ask_blanked(self, correctness: Correctness, modes: tuple[Mode, ...]) -> list[Finding]:
        """``correctness`` speaks to the process that has loaded the blanked source."""
        # Train mode first: it moves running statistics, with which eval mode can tell more.
        if not all(self._is_right(correctness, mode) for mode in sorted(modes, reverse=True)):
            return []
        return [
            Finding(
                id="kernels_do_nothing",
                severity="hack",
                message=f"in {' and '.join(modes)} mode the answers are right with the bodies of "
                "all own kernels taken out of the source: something else computes them",
                evidence="outside",
            )
        ]

    def _is_right(self, correctness: Correctness, mode: Mode) -> bool:
        first, second = self._question(correctness, mode, 0), self._question(correctness, mode, 1)
        try:
            before = correctness.ask(first, prepare=ZEROED)
            if before.values.status != "ok":
                return False
            after = correctness.ask(second, prepare=ZEROED)
        except PeerError:
            return False
        right = after.values.status == "ok" and claims_own(after)
        return right and tells_apart(correctness, before, after, second)

    def _question(self, correctness: Correctness, mode: Mode, turn: int) -> Question:
        seed, make = draw_seed(), correctness.task.reference.make_inputs
        key = f"{mode}/blanked/{turn}"
        correctness.note_seeds(key, seed)
        return Question(mode, lambda: make(seed), draw_seed(), key, self.name)
