"""What each protocol asks: which modes count, and how far an element may be off.

Every rule has the same form, ``|actual - target| <= slope * |target| + floor``:

=============  ===============  ==============================  ===================================
protocol       target           slope                           floor
=============  ===============  ==============================  ===================================
standard       reference        rtol of the dtype               rtol * rms(reference) + 4 * noise
kernelbench    reference        1e-2                            1e-2
strict         fp64 oracle      ulps of the dtype               ulps * rms(oracle) + 4 * the
                                                                reference's own worst error
=============  ===============  ==============================  ===================================

``noise`` is the reference's worst difference between its own precisions, measured once a task
(`kernelgym.judge.study`). Integers and bools must be equal. ``strict`` also bounds the rms of the
error, so that a small bias everywhere cannot hide below one bad element of the reference.

Not covered: whether the inputs exercise the task. That is the task lint's business.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from kernelgym.schema import Mode, Precision, Protocol

DTYPES: dict[Precision, torch.dtype] = {
    "fp32": torch.float32,
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
}
NOISE_FACTOR = 4.0
KERNELBENCH_TOLERANCE = 1e-2

_STANDARD_RTOL: dict[torch.dtype, float] = {
    torch.float64: 1e-5,
    torch.float32: 1e-2,  # TF32 is allowed: 10 bits of mantissa
    torch.float16: 1e-2,
    torch.bfloat16: 4e-2,
}
_EIGHT_BIT_RTOL = 0.25
"""Two bits of mantissa in fp8 e5m2, three in e4m3: one unit in the last place of the coarser."""

_ACCUMULATION = 64 * torch.finfo(torch.float32).eps
"""What another order of summation may cost, in fp32. TF32 lies two orders of magnitude above."""
_STRICT_SLOPE: dict[torch.dtype, float] = {
    torch.float64: 64 * torch.finfo(torch.float64).eps,
    torch.float32: _ACCUMULATION,
    torch.float16: 2 * torch.finfo(torch.float16).eps + _ACCUMULATION,
    torch.bfloat16: 2 * torch.finfo(torch.bfloat16).eps + _ACCUMULATION,
}


@dataclass(frozen=True)
class Allowance:
    """How far an element may be from its target."""

    slope: float
    floor: float
    equal_nan: bool = True
    """A NaN of the target wants a NaN; without it no NaN is ever right."""


@dataclass(frozen=True)
class Modes:
    """Which modes a protocol runs, in order, and which of them decide."""

    run: tuple[Mode, ...]
    deciding: frozenset[Mode]


def modes_of(protocol: Protocol, *, random_in_train: bool) -> Modes:
    """Modes to run.

    Eval always goes first: what training calls do to running statistics then cannot show in an
    eval output. A reference that draws random numbers in train mode is compared in eval mode only;
    the candidate still runs in train mode, for its launches. ``kernelbench`` never calls ``eval()``
    and so is decided by train mode alone where that can be compared.
    """
    run: tuple[Mode, ...] = ("eval", "train")
    if random_in_train:
        return Modes(run, frozenset({"eval"}))
    return Modes(run, frozenset({"train"}) if protocol == "kernelbench" else frozenset(run))


def standard_rtol(dtype: torch.dtype) -> float:
    """Relative tolerance of the ``standard`` protocol for outputs of this dtype."""
    return _STANDARD_RTOL.get(_real(dtype), _EIGHT_BIT_RTOL)


def standard(dtype: torch.dtype, rms: float, noise: float) -> Allowance:
    """Allowance under ``standard``."""
    rtol = standard_rtol(dtype)
    return Allowance(rtol, rtol * rms + NOISE_FACTOR * noise)


def kernelbench() -> Allowance:
    """Allowance under ``kernelbench``: ``torch.allclose`` with the published tolerances."""
    return Allowance(KERNELBENCH_TOLERANCE, KERNELBENCH_TOLERANCE, equal_nan=False)


def strict(dtype: torch.dtype, rms: float, reference_error: float) -> Allowance:
    """Allowance under ``strict``, around the fp64 oracle."""
    slope = _STRICT_SLOPE.get(_real(dtype), _EIGHT_BIT_RTOL)
    return Allowance(slope, slope * rms + NOISE_FACTOR * reference_error)


def _real(dtype: torch.dtype) -> torch.dtype:
    return dtype.to_real() if dtype.is_complex else dtype
