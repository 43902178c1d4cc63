"""A comparison of next to nothing, so that the real ones find their kernels loaded.

The device loads a kernel when it is first used, which takes a millisecond, or many while other
processes make contexts. A judge does this before it holds the gate for the first time.
"""

from __future__ import annotations

import torch

from kernelgym.judge import compare, inputs
from kernelgym.judge.answers import Expected
from kernelgym.judge.protocols import Allowance
from kernelgym.judge.quick import Agreement, agrees
from kernelgym.sandbox.messages import Output
from kernelgym.sandbox.pool import place_dense, write
from kernelgym.sandbox.seeding import seed_everything
from kernelgym.sandbox.tree import flatten

_DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def rehearse(device: str = "cuda", agreement: Agreement | None = None) -> bool:
    """Compare small tensors of the usual dtypes; whether each was found equal to itself."""
    seed_everything(0)
    flat = torch.zeros(4096, dtype=torch.uint8, device=device)
    good = []
    for dtype in _DTYPES:
        made = torch.randn(64, device=device).to(dtype)
        other = torch.rand(64, device=device).to(dtype)
        node, tensors = flatten(made)
        layouts, _ = place_dense(tensors)
        inputs.poison(flat, layouts, 0)
        write(flat, layouts, tensors)
        output = Output(tree=node, tensors=tuple(layouts), devices=(flat.device.type,))
        good.append(agrees("standard", Expected(node, tensors, []), output, flat, agreement))
        if agreement is not None:
            good += _sees_one_element(flat, output, made, agreement)
        good.append(compare.difference(made, made.clone(), Allowance(0.1, 0.1)).wrong == 0)
        compare.difference(made, other, Allowance(0.0, 1e-9))
        good.append(compare.same_bits(made, made.clone()))
        compare.rms(made)
    return all(good)


def _sees_one_element(
    flat: torch.Tensor, output: Output, made: torch.Tensor, agreement: Agreement
) -> list[bool]:
    """Whether an answer with one wrong element, or one NaN, is not taken for a right one."""
    found = []
    for value in (made[63] + 1, torch.nan):
        target = made.clone()
        target[63] = value
        node, tensors = flatten(target)
        found.append(not agrees("standard", Expected(node, tensors, []), output, flat, agreement))
    return found
