"""How much a reference's answer moves between its own precisions: the worst of what is compared.

============  =====================================  ==============================================
precision     everywhere                             on a GPU, too
============  =====================================  ==============================================
fp32          itself in fp64: rounding, and another  itself with TF32 against itself without, in
              order of sums                          products, convolutions and recurrences
fp16, bf16    itself in fp32                         nothing: TF32 plays no part
============  =====================================  ==============================================

A kernel for an fp32 task may use TF32, which is what ``tl.dot`` does by itself; products of torch
do not. Where sums cancel, such a kernel is off by more than any share of the answer: it is held to
what TF32 does to the reference itself. A task without a product has no difference there, and keeps
that from fp64. ``strict`` asks for none of this.

Not covered: TF32 in kernels that the reference brings along, which no switch of torch reaches.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from kernelgym.judge import compare
from kernelgym.judge.inputs import Arguments, convert
from kernelgym.judge.reference import Reference, Returned, convert_module
from kernelgym.schema import Mode


def oracle_dtype(dtype: torch.dtype) -> torch.dtype:
    """The precision beside which the noise of another is measured."""
    return torch.float64 if dtype == torch.float32 else torch.float32


def has_tf32(dtype: torch.dtype, device: torch.device) -> bool:
    """Whether TF32 can play a part in this precision on this device."""
    return dtype == torch.float32 and device.type == "cuda"


def described(dtype: torch.dtype, device: torch.device) -> str:
    """What the noise is measured between, for a result."""
    wide = f"itself in {'fp64' if dtype == torch.float32 else 'fp32'}"
    return f"{wide}; TF32 on and off" if has_tf32(dtype, device) else wide


def wide_call(
    reference: Reference,
    model: torch.nn.Module,
    mode: Mode,
    inputs: Arguments,
    dtype: torch.dtype,
) -> Returned:
    """The same values through ``model`` in a wider precision; converts ``model`` in place."""
    wide = convert_module(model, dtype)
    return reference.call(wide, mode, Arguments(inputs.node, convert(inputs.tensors, dtype)), 0)


def worst_differences(one: Returned, other: Returned) -> list[float]:
    """Largest finite difference of each output; raises ``ValueError`` for other shapes."""
    if [t.shape for t in one.tensors] != [t.shape for t in other.tensors]:
        raise ValueError("its outputs have other shapes there")
    return [
        compare.largest_gap(left, right) if is_inexact(left) else 0.0
        for left, right in zip(one.tensors, other.tensors, strict=True)
    ]


def worst_of(one: Sequence[float], other: Sequence[float]) -> list[float]:
    """Output by output."""
    return [max(pair) for pair in zip(one, other, strict=True)]


def is_inexact(tensor: torch.Tensor) -> bool:
    """Whether a tensor holds numbers that are rounded."""
    return tensor.is_floating_point() or tensor.is_complex()
