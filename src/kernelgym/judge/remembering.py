"""Earlier answers: whether they are still what they were, and whether this one is one of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace

import torch

from kernelgym.judge import compare
from kernelgym.judge.answers import Verdict
from kernelgym.sandbox.messages import Output
from kernelgym.sandbox.pool import view

MIN_BYTES = 16
"""Two smaller answers may well be equal."""
KEPT = 4


class Remembered:
    """The last few answers of a candidate, as they were when it gave them."""

    def __init__(self, limit_bytes: int) -> None:
        """Answers larger than ``limit_bytes`` are not remembered."""
        self._limit_bytes = limit_bytes
        self._answers: deque[list[torch.Tensor]] = deque(maxlen=KEPT)

    def changed(self, output: Output, flat: torch.Tensor) -> Verdict | None:
        """Whether the outputs of the call before, copied once more, are no longer what they were.

        Raises ``ValueError`` for layouts that lie outside the pool.
        """
        before = self._answers[-1] if self._answers else []
        for index, (layout, then) in enumerate(zip(output.earlier, before, strict=False)):
            same = (
                layout.offset >= 0
                and layout.shape == tuple(then.shape)
                and compare.same_bits(view(flat, layout), then)
            )
            if not same:
                return Verdict(
                    "overwritten_output",
                    f"output tensor {index} of the call before was changed by this one",
                )
        return None

    def intact(self, output: Output, flat: torch.Tensor) -> list[torch.Tensor] | None:
        """Whether `changed` finds nothing, not waited for; None where it has to be asked."""
        before = self._answers[-1] if self._answers else []
        pairs = list(zip(output.earlier, before, strict=False))
        alike = all(x.offset >= 0 and x.shape == tuple(then.shape) for x, then in pairs)
        if not alike or any(x.dtype != str(then.dtype).removeprefix("torch.") for x, then in pairs):
            return None
        return [compare.bits_agree(view(flat, layout), then) for layout, then in pairs]

    def explain(self, verdict: Verdict, output: Output, flat: torch.Tensor) -> Verdict:
        """A wrong answer that is, bit by bit, an earlier one is a stale one."""
        if verdict.status not in ("value_mismatch", "nan_mismatch"):
            return verdict
        now = [view(flat, layout) for layout in output.tensors if layout.offset >= 0]
        if sum(tensor.nbytes for tensor in now) < MIN_BYTES:
            return verdict
        for age, then in enumerate(reversed(self._answers), 1):
            if _equal(now, then):
                text = f"the answer is the one given {age} calls ago, for other inputs"
                return replace(verdict, status="stale_answer", detail=f"{text}; {verdict.detail}")
        return verdict

    def keep(self, output: Output, flat: torch.Tensor) -> list[torch.Tensor]:
        """Remember this answer; its tensors, or none when they are too large."""
        layouts = [layout for layout in output.tensors if layout.offset >= 0]
        tensors = [view(flat, layout) for layout in layouts]
        if sum(tensor.nbytes for tensor in tensors) > self._limit_bytes:
            self._answers.clear()
            return []
        kept = [tensor.clone() for tensor in tensors]
        self._answers.append(kept)
        return kept


def _equal(now: Sequence[torch.Tensor], then: Sequence[torch.Tensor]) -> bool:
    return len(now) == len(then) and all(
        a.shape == b.shape and a.dtype == b.dtype and compare.same_bits(a, b)
        for a, b in zip(now, then, strict=True)
    )
