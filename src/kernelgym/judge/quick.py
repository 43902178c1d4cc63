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
"""For each output tensor, by its place in `Expected.tensors`: the largest error that passes."""


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
        if wanted not in bounds:
            noise = expected.noise[wanted] if wanted < len(expected.noise) else 0.0
            bounds[wanted] = _bound(protocol, target, noise)
        error = torch.sub(actual, target) if dtype == "float32" else _wide(actual, target)
        good.append((error.abs_() <= bounds[wanted]).all())
    return all(bool(one) for one in good)


def _wide(actual: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return actual.to(torch.float32).sub_(target.to(torch.float32))


def _bound(protocol: Protocol, target: torch.Tensor, noise: float) -> torch.Tensor:
    wide = target.to(torch.float32)
    allowance = _allowance(protocol, target.dtype, noise)
    allowed = allowance.slope * wide.abs() + allowance.floor
    if protocol != "kernelbench":
        allowed = allowed + protocols.standard_rtol(target.dtype) * wide.square().mean().sqrt()
    return allowed.mul_(MARGIN)


def _allowance(protocol: Protocol, dtype: torch.dtype, noise: float) -> Allowance:
    return (
        protocols.kernelbench()
        if protocol == "kernelbench"
        else protocols.standard(dtype, 0.0, noise)
    )
