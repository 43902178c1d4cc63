"""Whether answers agree, many at once and with one wait: for calls that are timed and all checked.

Stricter than the trials' own comparison by a tenth, so whatever passes here passes there. False
means only "not known": the full comparison decides then. fp32 arithmetic; ``strict`` always takes
the long way. On a GPU one kernel reads each pair once, where its dtype and layout allow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from kernelgym.cuda.kernels import Kernels
from kernelgym.judge import protocols
from kernelgym.judge.answers import Expected
from kernelgym.judge.protocols import Allowance
from kernelgym.judge.structure import Leaves, StructureMismatch, match
from kernelgym.sandbox import tree
from kernelgym.sandbox.messages import Output
from kernelgym.sandbox.pool import view
from kernelgym.schema import Protocol

MARGIN = 0.9
AT_ONCE_BYTES = 1 << 30
"""Answers whose differences are held at the same time."""

_KERNEL_DTYPES = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16"}

Bounds = dict[int, float]
"""For each output tensor, by its place in `Expected.tensors`: the error that passes at zero."""


class Agreement:
    """Compares pairs of tensors by a kernel of our own (`kernelgym.cuda.kernels`)."""

    def __init__(self, kernels: Kernels, stream: Callable[[], int]) -> None:
        """``stream``: of torch, at the time of a call."""
        self._kernels, self._stream = kernels, stream

    def takes(self, actual: torch.Tensor, target: torch.Tensor) -> bool:
        """Whether it can compare these."""
        return (
            target.is_cuda
            and actual.dtype == target.dtype
            and target.dtype in _KERNEL_DTYPES
            and actual.is_contiguous()
            and target.is_contiguous()
        )

    def of(self, pairs: Sequence[_Pair]) -> torch.Tensor:
        """Whether each pair agrees, once that has run: bools."""
        stream = self._stream()
        flags = torch.zeros(len(pairs), dtype=torch.int32, device=pairs[0].target.device)
        for index, pair in enumerate(pairs):
            self._kernels.agree(
                stream, _KERNEL_DTYPES[pair.target.dtype],
                pair.actual.data_ptr(), pair.target.data_ptr(), pair.target.numel(),
                MARGIN * pair.allowance.slope, pair.bound, flags.data_ptr() + 4 * index,
            )  # fmt: skip
        return flags == 0


@dataclass
class _Pair:
    """One floating tensor of an answer beside its target."""

    answer: int
    actual: torch.Tensor
    target: torch.Tensor
    allowance: Allowance
    rtol: float
    """Part of the target's root mean square that an error may be anywhere."""
    bounds: Bounds
    place: int

    @property
    def bound(self) -> float:
        """The error that passes at zero."""
        return self.bounds[self.place]


class Comparison:
    """Answers under one protocol, collected first, then decided together."""

    def __init__(self, protocol: Protocol, agreement: Agreement | None = None) -> None:
        """``agreement``: compares tensors on a GPU."""
        self._protocol = protocol
        self._agreement = agreement
        self._known: list[bool] = []
        self._pairs: list[_Pair] = []
        self._exact: list[tuple[int, torch.Tensor]] = []

    def add(
        self, expected: Expected, output: Output, flat: torch.Tensor, bounds: Bounds | None = None
    ) -> None:
        """One more answer; raises ``ValueError`` for a malformed one.

        ``bounds`` of the same ``expected`` are filled in by the first comparison and used by later
        ones. The memory behind ``flat`` must stay as it is until all is decided.
        """
        bounds = {} if bounds is None else bounds
        leaves = self._leaves(expected, output, flat)
        answer = len(self._known)
        self._known.append(leaves is not None)
        for _, wanted, got in [] if leaves is None else leaves.tensors:
            target, layout = expected.tensors[wanted].detach(), output.tensors[got]
            dtype = str(target.dtype).removeprefix("torch.")
            alike = layout.shape == tuple(target.shape) and layout.dtype == dtype
            if not alike or layout.offset < 0:
                self._known[answer] = False
            elif target.numel():
                noise = expected.noise[wanted] if wanted < len(expected.noise) else 0.0
                self._pair(answer, view(flat, layout), target, noise, bounds, wanted)

    def decide(self) -> list[bool]:
        """Whether each answer certainly passes, in the order in which they came."""
        self._find_bounds()
        for pair in self._pairs:
            self._known[pair.answer] &= math.isfinite(pair.bound)
        here, elsewhere = self._split()
        answers = [answer for answer, _ in self._exact]
        flags = [flag.reshape(1) for _, flag in self._exact]
        if here and self._agreement is not None:
            answers += [pair.answer for pair in here]
            flags.append(self._agreement.of(here))
        for pairs in _groups(elsewhere):
            answers += [pair.answer for pair in pairs]
            flags += [(top <= 0).reshape(1) for top in _excess(pairs)]
        for answer, good in zip(answers, torch.cat(flags).tolist() if flags else [], strict=True):
            self._known[answer] &= good
        return self._known

    def _split(self) -> tuple[list[_Pair], list[_Pair]]:
        """Pairs for the kernel, and the others."""
        here: list[_Pair] = []
        elsewhere: list[_Pair] = []
        for pair in self._pairs:
            taken = self._agreement is not None and self._agreement.takes(pair.actual, pair.target)
            (here if taken else elsewhere).append(pair)
        return here, elsewhere

    def _leaves(self, expected: Expected, output: Output, flat: torch.Tensor) -> Leaves | None:
        """What to compare; None where the long way has to be taken."""
        if self._protocol == "strict" or output.aliases:
            return None
        try:
            leaves = match(expected.node, tree.check(output.tree, len(output.tensors)))
        except StructureMismatch:
            return None
        if any(t.is_floating_point() and t.itemsize == 1 for t in expected.tensors):
            return None  # torch does no arithmetic on them
        return None if leaves.floats or set(output.devices) - {flat.device.type} else leaves

    def _pair(
        self,
        answer: int,
        actual: torch.Tensor,
        target: torch.Tensor,
        noise: float,
        bounds: Bounds,
        place: int,
    ) -> None:
        if not target.is_floating_point():
            self._exact.append((answer, (actual == target).all()))
            return
        published = self._protocol == "kernelbench"
        allowance = (
            protocols.kernelbench() if published else protocols.standard(target.dtype, 0.0, noise)
        )
        rtol = 0.0 if published else protocols.standard_rtol(target.dtype)
        self._pairs.append(_Pair(answer, actual, target, allowance, rtol, bounds, place))

    def _find_bounds(self) -> None:
        unknown = [pair for pair in self._pairs if pair.place not in pair.bounds]
        if not unknown:
            return
        norms = [_norm(pair.target) for pair in unknown]
        for pair, norm in zip(unknown, torch.stack(norms).tolist(), strict=True):
            scale = norm / math.sqrt(pair.target.numel())
            pair.bounds[pair.place] = MARGIN * (pair.rtol * scale + pair.allowance.floor)


def _norm(target: torch.Tensor) -> torch.Tensor:
    """In float32; torch refuses to narrow doubles on the way."""
    dtype = torch.float64 if target.dtype == torch.float64 else torch.float32
    norm: torch.Tensor = torch.linalg.vector_norm(target, dtype=dtype)
    return norm.float()


def agrees(
    protocol: Protocol,
    expected: Expected,
    output: Output,
    flat: torch.Tensor,
    agreement: Agreement | None = None,
) -> bool:
    """Whether one answer certainly passes; raises ``ValueError`` for a malformed one."""
    comparison = Comparison(protocol, agreement)
    comparison.add(expected, output, flat)
    return comparison.decide()[0]


def _groups(pairs: list[_Pair]) -> list[list[_Pair]]:
    """Pairs in turn, no more at a time than memory should hold differences of."""
    groups: list[list[_Pair]] = []
    held = AT_ONCE_BYTES
    for pair in pairs:
        if held + pair.target.nbytes > AT_ONCE_BYTES:
            groups.append([])
            held = 0
        groups[-1].append(pair)
        held += pair.target.nbytes
    return groups


def _excess(pairs: list[_Pair]) -> list[torch.Tensor]:
    """The largest of |actual - target| - allowed of each pair: NaN where anything is one."""
    wide = torch.float32
    targets = [pair.target.to(wide) for pair in pairs]
    errors = list(torch._foreach_sub([pair.actual.to(wide) for pair in pairs], targets))
    torch._foreach_abs_(errors)
    allowed = list(torch._foreach_abs(targets))
    torch._foreach_mul_(allowed, [MARGIN * pair.allowance.slope for pair in pairs])
    torch._foreach_add_(allowed, [pair.bound for pair in pairs])
    torch._foreach_sub_(errors, allowed)
    return list(torch._foreach_max(errors))
