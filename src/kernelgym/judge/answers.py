"""One answer of the candidate against what the reference returned: a `Trial`.

Order of the checks: structure, tensor class, device, dtype, shape, that something was written, that
no memory is shared which the reference does not share, values, and what became of the inputs. The
first difference gives the trial its status; numbers are kept for every trial that got that far.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch

from kernelgym.judge import compare, inputs, protocols
from kernelgym.judge.compare import Difference
from kernelgym.judge.protocols import Allowance
from kernelgym.judge.structure import StructureMismatch, match
from kernelgym.sandbox import tree
from kernelgym.sandbox.messages import Output
from kernelgym.sandbox.pool import TensorLayout, dense_stride, view
from kernelgym.sandbox.tree import Node
from kernelgym.schema import Protocol


class BadAnswer(Exception):
    """The claims about an answer contradict themselves: not something the harness sends."""


@dataclass(frozen=True)
class Expected:
    """What the reference made of one set of inputs."""

    node: Node
    tensors: list[torch.Tensor]
    noise: list[float]
    """For each tensor, see `kernelgym.judge.study`."""
    oracle: list[torch.Tensor] = field(default_factory=list)
    """fp64 answers, only for ``strict``."""
    shared: frozenset[str] = frozenset()
    """Kinds of memory that the reference's own outputs share."""


@dataclass(frozen=True)
class Verdict:
    """What became of one answer."""

    status: str = "ok"
    detail: str = ""
    max_abs_error: float | None = None
    max_rel_error: float | None = None
    worst_ratio: float | None = None
    quantiles: tuple[float, float, float] | None = None


class Examiner:
    """Compares answers under one protocol."""

    def __init__(
        self,
        protocol: Protocol,
        dtype: torch.dtype,
        device: str = "cpu",
        on: frozenset[str] | None = None,
    ) -> None:
        """``on``: names of safeguards; None is all of them."""
        self._strict_types = on is None or "exact_types" in on
        self._own_memory = on is None or "own_memory" in on
        self._look_for_poison = on is None or "filled_memory" in on
        self.protocol = protocol
        self.dtype = dtype
        self.device = device

    def examine(
        self, expected: Expected, output: Output, flat: torch.Tensor, poison: int
    ) -> Verdict:
        """Judge an answer whose tensors lie in the output pool ``flat``."""
        try:
            actual = tree.check(output.tree, len(output.tensors))
        except ValueError as error:
            raise BadAnswer(str(error)) from error
        try:
            leaves = match(expected.node, actual)
            self._check_devices(output)
            pairs = [
                (path, wanted, self._tensor(path, expected.tensors[wanted], output, got))
                for path, wanted, got in leaves.tensors
            ]
            self._check_written(pairs, output, flat, poison)
            if self._own_memory:
                _check_aliases(output.aliases, expected.shared)
        except StructureMismatch as mismatch:
            return Verdict(mismatch.status, str(mismatch))
        worst = Worst()
        for path, wanted, layout in pairs:
            self._compare(worst, path, expected, wanted, view(flat, layout))
        for path, number, got in leaves.floats:
            target = torch.tensor([number], dtype=torch.complex128)
            self._compare_number(worst, path, target, torch.tensor([got], dtype=torch.complex128))
        return worst.verdict()

    def accepts(self, expected: Expected, answer: Sequence[torch.Tensor]) -> bool:
        """Whether tensors, in the order of the expected ones, would pass by their values."""
        if self.protocol == "strict" and not expected.oracle:
            expected = replace(expected, oracle=expected.tensors)
        if [t.shape for t in answer] != [t.shape for t in expected.tensors]:
            return False
        worst = Worst()
        for index, tensor in enumerate(answer):
            self._compare(worst, "output", expected, index, tensor)
        return worst.verdict().status == "ok"

    def _check_devices(self, output: Output) -> None:
        if len(output.devices) != len(output.tensors):
            raise BadAnswer("devices and tensors differ in number")
        for index, device in enumerate(output.devices):
            if device != self.device:
                raise StructureMismatch(
                    "device_mismatch", f"tensor {index} lies on {device!s:.40}, not {self.device}"
                )

    def _tensor(self, path: str, wanted: torch.Tensor, output: Output, index: int) -> TensorLayout:
        layout = output.tensors[index]
        dtype = str(wanted.dtype).removeprefix("torch.")
        if layout.shape != tuple(wanted.shape):
            raise StructureMismatch(
                "shape_mismatch",
                f"{path}: expected shape {tuple(wanted.shape)}, got {str(layout.shape)[:200]}",
            )
        if layout.dtype != dtype and self._strict_types:
            raise StructureMismatch(
                "dtype_mismatch", f"{path}: expected dtype {dtype}, got {layout.dtype:.40}"
            )
        if layout.offset < 0:
            raise StructureMismatch("unwritten_output", f"{path}: it could not be copied")
        if layout.stride != dense_stride(layout.shape):
            raise BadAnswer("a copy in the output pool is not dense")
        return layout

    def _check_written(
        self,
        pairs: Sequence[tuple[str, int, TensorLayout]],
        output: Output,
        flat: torch.Tensor,
        poison: int,
    ) -> None:
        for path, _, layout in pairs:
            try:
                view(flat, layout)
            except ValueError as error:
                raise BadAnswer(str(error)) from error
            # One byte of poison may be an honest answer, a tensor full of it hardly.
            if not self._look_for_poison or inputs.dense_bytes(layout) < 16:
                continue
            if inputs.still_poisoned(flat, layout, poison):
                raise StructureMismatch("unwritten_output", f"{path}: nothing was written to it")

    def _compare(
        self, worst: Worst, path: str, expected: Expected, index: int, actual: torch.Tensor
    ) -> None:
        reference = expected.tensors[index]
        if not (reference.is_floating_point() or reference.is_complex()):
            worst.add(path, compare.exact_difference(actual, reference), 0.0, reference.shape)
            return
        scale = compare.rms(reference)
        if self.protocol == "strict":
            self._compare_strictly(worst, path, expected, index, actual)
            return
        noise = expected.noise[index] if index < len(expected.noise) else 0.0
        allowance = (
            protocols.kernelbench()
            if self.protocol == "kernelbench"
            else protocols.standard(reference.dtype, scale, noise)
        )
        found = compare.difference(actual, reference, allowance)
        worst.add(path, found, scale, reference.shape)

    def _compare_strictly(
        self, worst: Worst, path: str, expected: Expected, index: int, actual: torch.Tensor
    ) -> None:
        reference, oracle = expected.tensors[index], expected.oracle[index]
        scale = compare.rms(oracle)
        own = compare.difference(reference, oracle, Allowance(0.0, 1.0))
        allowance = protocols.strict(reference.dtype, scale, own.max_error)
        found = compare.difference(actual, oracle, allowance)
        budget = protocols.strict(reference.dtype, scale, own.rms_error).floor
        biased = found.rms_error > budget
        worst.add(path, found, scale, reference.shape, biased=biased)

    def _compare_number(
        self, worst: Worst, path: str, target: torch.Tensor, actual: torch.Tensor
    ) -> None:
        scale = compare.rms(target)
        allowance = (
            protocols.kernelbench()
            if self.protocol == "kernelbench"
            else protocols.standard(self.dtype, scale, 0.0)
        )
        worst.add(path, compare.difference(actual, target, allowance), scale, target.shape)


class Worst:
    """The worst over all outputs of one answer."""

    def __init__(self) -> None:
        self._verdict = Verdict()
        self._errors: list[float] = []
        self._relative: list[float] = []
        self._ratios: list[float] = []
        self._quantiles: list[tuple[float, float, float]] = []

    def add(
        self,
        path: str,
        found: Difference,
        scale: float,
        shape: Sequence[int],
        *,
        biased: bool = False,
    ) -> None:
        """Take one output into account."""
        self._errors.append(found.max_error)
        self._ratios.append(found.worst_ratio)
        if scale > 0:
            self._relative.append(found.max_error / scale)
        if found.quantiles is not None:
            self._quantiles.append(found.quantiles)
        if self._verdict.status != "ok" or not (found.wrong or biased):
            return
        status = "nan_mismatch" if found.wrong_specials else "value_mismatch"
        detail = f"{path}: {_describe(found, shape)}" if found.wrong else f"{path}: biased answers"
        self._verdict = Verdict(status, detail)

    def verdict(self) -> Verdict:
        """The first difference, and the largest numbers of all outputs."""
        return Verdict(
            self._verdict.status,
            self._verdict.detail,
            max(self._errors, default=None),
            max(self._relative, default=None),
            max(self._ratios, default=None),
            max(self._quantiles, key=lambda q: q[1], default=None),
        )


def _describe(found: Difference, shape: Sequence[int]) -> str:
    share = 100 * found.wrong / found.count
    text = f"{found.wrong:,} of {found.count:,} elements differ ({share:.3g}%)"
    if found.worst is not None:
        index, actual, target = found.worst
        text += f"; worst at {_position(index, shape)}: got {actual:.6g}, expected {target:.6g}"
    return text


def _position(flat: int, shape: Sequence[int]) -> str:
    place = []
    for size in reversed(shape):
        place.append(flat % size)
        flat //= size
    return "[" + ", ".join(str(number) for number in reversed(place)) + "]"


def _check_aliases(aliases: Sequence[str], allowed: frozenset[str]) -> None:
    for alias in aliases:
        index, _, other = alias.partition(" ")
        if other.partition(" ")[0] not in allowed:
            raise StructureMismatch(
                "aliased_output", f"output tensor {index:.10} shares memory with {other:.80}"
            )
