"""Whether answers agree, many at once and with one wait: for calls that are timed and all checked.

Stricter than the trials' own comparison by a tenth, so whatever passes here passes there. False
means only "not known": the full comparison decides then. fp32 arithmetic; ``strict`` always takes
the long way.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

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

Bounds = dict[int, float]
"""For each output tensor, by its place in `Expected.tensors`: the error that passes at zero."""


@dataclass
class _Pair:
    """One floating tensor of an answer beside its target, both float32."""

    answer: int
    actual: torch.Tensor
    target: torch.Tensor
    allowance: Allowance
    rtol: float
    """Part of the target's root mean square that an error may be anywhere."""
    bounds: Bounds
    place: int


class Comparison:
    """Answers under one protocol, collected first, then decided together."""

    def __init__(self, protocol: Protocol) -> None:
        self._protocol = protocol
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
        flags = [*self._exact]
        for pairs in _groups(self._pairs):
            tops = _excess(pairs)
            flags += [(pair.answer, top <= 0) for pair, top in zip(pairs, tops, strict=True)]
        if flags:
            for (answer, _), good in zip(
                flags, torch.stack([flag for _, flag in flags]).tolist(), strict=True
            ):
                self._known[answer] &= good
        return self._known

    def _leaves(self, expected: Expected, output: Output, flat: torch.Tensor) -> Leaves | None:
        """What to compare; None where the long way has to be taken."""
        if self._protocol == "strict" or output.aliases:
            return None
        try:
            leaves = match(expected.node, tree.check(output.tree, len(output.tensors)))
        except StructureMismatch:
            return None
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
        wide = torch.float32
        self._pairs.append(
            _Pair(answer, actual.to(wide), target.to(wide), allowance, rtol, bounds, place)
        )

    def _find_bounds(self) -> None:
        unknown = [pair for pair in self._pairs if pair.place not in pair.bounds]
        if not unknown:
            return
        scales = torch.stack([pair.target.square().mean().sqrt() for pair in unknown]).tolist()
        for pair, scale in zip(unknown, scales, strict=True):
            pair.bounds[pair.place] = MARGIN * (pair.rtol * scale + pair.allowance.floor)


def agrees(
    protocol: Protocol,
    expected: Expected,
    output: Output,
    flat: torch.Tensor,
    bounds: Bounds | None = None,
) -> bool:
    """Whether one answer certainly passes; raises ``ValueError`` for a malformed one."""
    comparison = Comparison(protocol)
    comparison.add(expected, output, flat, bounds)
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
    targets = [pair.target for pair in pairs]
    errors = list(torch._foreach_sub([pair.actual for pair in pairs], targets))
    torch._foreach_abs_(errors)
    allowed = list(torch._foreach_abs(targets))
    torch._foreach_mul_(allowed, [MARGIN * pair.allowance.slope for pair in pairs])
    torch._foreach_add_(allowed, [pair.bounds[pair.place] for pair in pairs])
    torch._foreach_sub_(errors, allowed)
    return list(torch._foreach_max(errors))
