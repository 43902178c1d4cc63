"""Whether an answer agrees, in one pass and one wait: for calls that are timed and all checked.

Stricter than the trials' own comparison by a tenth, so whatever passes here passes there. False
means only "not known": the full comparison decides then. fp32 arithmetic; ``strict`` always takes
the long way.
"""

from __future__ import annotations

import torch

from kernelgym.judge import protocols
from kernelgym.judge.answers import Expected
from kernelgym.judge.protocols import Allowance
from kernelgym.judge.structure import StructureMismatch, match
from kernelgym.sandbox import tree
from kernelgym.sandbox.messages import Output
from kernelgym.sandbox.pool import view
from kernelgym.schema import Protocol

MARGIN = 0.9


Bounds = dict[int, torch.Tensor]
"""For each output tensor, by its place in `Expected.tensors`: the error that passes at zero."""


def agrees(
    protocol: Protocol,
    expected: Expected,
    output: Output,
    flat: torch.Tensor,
    bounds: Bounds | None = None,
) -> bool:
    """Whether the answer certainly passes; raises ``ValueError`` for a malformed one.

    ``bounds`` of the same ``expected`` are filled in by the first comparison and used by later
    ones.
    """
    if protocol == "strict" or output.aliases:
        return False
    try:
        leaves = match(expected.node, tree.check(output.tree, len(output.tensors)))
    except StructureMismatch:
        return False
    if leaves.floats or set(output.devices) - {flat.device.type}:
        return False
    bounds = {} if bounds is None else bounds
    good: list[torch.Tensor] = []
    for _, wanted, got in leaves.tensors:
        target, layout = expected.tensors[wanted], output.tensors[got]
        dtype = str(target.dtype).removeprefix("torch.")
        if layout.shape != tuple(target.shape) or layout.dtype != dtype or layout.offset < 0:
            return False
        if not target.numel():
            continue
        actual, target = view(flat, layout), target.detach()
        if not target.is_floating_point():
            good.append((actual == target).all())
            continue
        wide = target.to(torch.float32)
        noise = expected.noise[wanted] if wanted < len(expected.noise) else 0.0
        allowance = _allowance(protocol, target.dtype, noise)
        if wanted not in bounds:
            bounds[wanted] = _floor(protocol, allowance, wide, target.dtype)
        error = torch.sub(actual, wide).abs_()
        allowed = torch.abs(wide).mul_(MARGIN * allowance.slope).add_(bounds[wanted])
        good.append((error <= allowed).all())
    return all(bool(one) for one in good)


def _floor(
    protocol: Protocol, allowance: Allowance, wide: torch.Tensor, dtype: torch.dtype
) -> torch.Tensor:
    if protocol == "kernelbench":
        return torch.full((), MARGIN * allowance.floor, device=wide.device)
    scale = wide.square().mean().sqrt()
    return scale.mul_(protocols.standard_rtol(dtype)).add_(allowance.floor).mul_(MARGIN)


def _allowance(protocol: Protocol, dtype: torch.dtype, noise: float) -> Allowance:
    return (
        protocols.kernelbench()
        if protocol == "kernelbench"
        else protocols.standard(dtype, 0.0, noise)
    )
