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


def agrees(protocol: Protocol, expected: Expected, output: Output, flat: torch.Tensor) -> bool:
    """Whether the answer certainly passes; raises ``ValueError`` for a malformed one."""
    if protocol == "strict" or output.aliases:
        return False
    try:
        leaves = match(expected.node, tree.check(output.tree, len(output.tensors)))
    except StructureMismatch:
        return False
    if leaves.floats or set(output.devices) - {flat.device.type}:
        return False
    good = torch.ones((), dtype=torch.bool, device=flat.device)
    for _, wanted, got in leaves.tensors:
        target, layout = expected.tensors[wanted], output.tensors[got]
        dtype = str(target.dtype).removeprefix("torch.")
        if layout.shape != tuple(target.shape) or layout.dtype != dtype or layout.offset < 0:
            return False
        noise = expected.noise[wanted] if wanted < len(expected.noise) else 0.0
        good = good & _close(protocol, view(flat, layout), target.detach(), noise)
    return bool(good)


def _close(
    protocol: Protocol, actual: torch.Tensor, target: torch.Tensor, noise: float
) -> torch.Tensor:
    if not target.numel():
        return torch.ones((), dtype=torch.bool, device=target.device)
    if not target.is_floating_point():
        return (actual == target).all()
    wide = target.to(torch.float32)
    allowance = _allowance(protocol, target.dtype, noise)
    allowed = allowance.slope * wide.abs() + allowance.floor
    if protocol != "kernelbench":
        allowed = allowed + protocols.standard_rtol(target.dtype) * wide.square().mean().sqrt()
    return ((actual.to(torch.float32) - wide).abs() <= MARGIN * allowed).all()


def _allowance(protocol: Protocol, dtype: torch.dtype, noise: float) -> Allowance:
    return (
        protocols.kernelbench()
        if protocol == "kernelbench"
        else protocols.standard(dtype, 0.0, noise)
    )
