"""Numbers against numbers: how far a tensor is from its target, element by element.

All arithmetic is in float64, in chunks (`CHUNK` elements on a CPU, so that they stay in its cache),
so that an output of several GB costs some MB on top of the two tensors. Each chunk of the actual
output is read exactly once: it lies in memory that the candidate can still write. Complex tensors
are compared as pairs of reals.

Quantiles come from an even subsample of at most `SAMPLE` elements; everything else from all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from kernelgym.judge.protocols import Allowance

CHUNK = 1 << 17
DEVICE_CHUNK = 1 << 24
"""On a GPU, where a launch costs more than a trip to memory."""
SAMPLE = 1 << 16
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@dataclass(frozen=True)
class Difference:
    """One tensor compared with its target."""

    count: int
    """Elements compared."""
    wrong: int
    """Elements out of tolerance, special values included."""
    wrong_specials: int = 0
    """Elements where a NaN or an Inf stands on one side only, or differs."""
    max_error: float = 0.0
    """Largest |actual - target| where both are finite."""
    rms_error: float = 0.0
    """Root mean square of the error where both are finite."""
    worst_ratio: float = 0.0
    """Largest |error| / allowance where both are finite."""
    worst: tuple[int, float, float] | None = None
    """Flat index, actual and target of the first worst element."""
    quantiles: tuple[float, float, float] | None = None
    """|error| / allowance at 50, 90 and 99 percent of the elements."""


class _Tally:
    """Running maxima over chunks."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.wrong = self.wrong_specials = self.finite = 0
        self.max_error = self.squares = self.worst_ratio = 0.0
        self.worst: tuple[int, float, float] | None = None
        self.worst_key = 0.0
        self.samples: list[torch.Tensor] = []
        self.quantiles: list[float] = []
        """Known at once where there is one chunk only."""

    def add(
        self, start: int, actual: torch.Tensor, target: torch.Tensor, allowance: Allowance
    ) -> None:
        """Take one chunk in, both sides in float64 and ours to overwrite."""
        error = (actual - target).abs_()
        ratio = error / target.abs().mul_(allowance.slope).add_(allowance.floor)
        largest, index = ratio.max(dim=0)
        numbers = (largest, error.max(), error.dot(error), index, actual.take(index))
        points = _quantiles(self._sample(ratio)) if ratio.numel() == self.count else ()
        # one list, so that a GPU is waited for once; indices are exact in float64
        top, max_error, squares, place, got, wanted, *quantiles = torch.stack(
            [*(number.to(torch.float64) for number in numbers), target.take(index), *points]
        ).tolist()
        if not math.isfinite(top):  # special values, or 0 / 0 where nothing is allowed
            self._add_specials(start, actual, target, error, ratio, allowance)
            return
        if self.worst is None or top > self.worst_key:
            self.worst, self.worst_key = (start + int(place), got, wanted), top
        self.quantiles = quantiles
        self._add_finite(ratio, top, max_error, squares)

    def _sample(self, ratio: torch.Tensor) -> torch.Tensor:
        return ratio[:: max(1, self.count // SAMPLE)]

    def _add_finite(
        self, ratio: torch.Tensor, top: float, max_error: float, squares: float
    ) -> None:
        self.finite += ratio.numel()
        self.wrong += int((ratio > 1).sum()) if top > 1 else 0
        self.worst_ratio = max(self.worst_ratio, top)
        self.max_error = max(self.max_error, max_error)
        self.squares += squares
        self.samples.append(self._sample(ratio).clone())

    def _add_specials(
        self,
        start: int,
        actual: torch.Tensor,
        target: torch.Tensor,
        error: torch.Tensor,
        ratio: torch.Tensor,
        allowance: Allowance,
    ) -> None:
        ratio[error == 0] = 0.0
        finite = torch.isfinite(error)
        same = actual == target
        if allowance.equal_nan:
            same |= actual.isnan() & target.isnan()
        self.wrong_specials += int((~same & ~finite).sum())
        key = torch.where(finite, ratio, torch.where(same, 0.0, math.inf))
        self._note_worst(start, key, actual, target)
        if bool(finite.any()):
            error, ratio = error[finite], ratio[finite]
            squares = float(error.dot(error))
            self._add_finite(ratio, float(ratio.max()), float(error.max()), squares)

    def _note_worst(
        self, start: int, key: torch.Tensor, actual: torch.Tensor, target: torch.Tensor
    ) -> None:
        index = int(key.argmax())
        value = float(key[index])
        if self.worst is None or value > self.worst_key:
            self.worst = (start + index, float(actual[index]), float(target[index]))
            self.worst_key = value

    def difference(self) -> Difference:
        quantiles = None
        if self.samples:
            low, mid, high = self.quantiles or _quantiles(torch.cat(self.samples)).tolist()
            quantiles = (low, mid, high)
        return Difference(
            count=self.count,
            wrong=self.wrong + self.wrong_specials,
            wrong_specials=self.wrong_specials,
            max_error=self.max_error,
            rms_error=math.sqrt(self.squares / self.finite) if self.finite else 0.0,
            worst_ratio=self.worst_ratio,
            worst=self.worst,
            quantiles=quantiles,
        )


def _quantiles(sample: torch.Tensor) -> torch.Tensor:
    points = torch.tensor([0.5, 0.9, 0.99], dtype=torch.float64, device=sample.device)
    return torch.quantile(sample, points)


def difference(actual: torch.Tensor, target: torch.Tensor, allowance: Allowance) -> Difference:
    """Compare two floating or complex tensors of one shape."""
    flat_actual, flat_target = _flat(actual), _flat(target)
    count = flat_target.numel()
    if count == 0:
        return Difference(0, 0)
    tally = _Tally(count)
    chunk = chunk_of(flat_target)
    for start in range(0, count, chunk):
        end = start + chunk
        tally.add(
            start,
            flat_actual[start:end].to(torch.float64),
            flat_target[start:end].to(torch.float64),
            allowance,
        )
    if target.is_complex() and tally.worst is not None:
        tally.worst = (tally.worst[0] // 2, *tally.worst[1:])
    return tally.difference()


def exact_difference(actual: torch.Tensor, target: torch.Tensor) -> Difference:
    """Compare two integer or bool tensors of one shape and dtype, bit by bit."""
    flat_actual, flat_target = actual.reshape(-1), target.reshape(-1)
    bits = _BITS[target.element_size()]
    count, wrong, max_error = flat_target.numel(), 0, 0.0
    worst: tuple[int, float, float] | None = None
    chunk = chunk_of(flat_target)
    for start in range(0, count, chunk):
        a = flat_actual[start : start + chunk].clone()
        t = flat_target[start : start + chunk]
        differs = a.view(bits) != t.view(bits)
        here = int(differs.sum())
        if here:
            wrong += here
            error = (a.to(torch.float64) - t.to(torch.float64)).abs()
            index = int(torch.where(differs, error, -1.0).argmax())
            if worst is None or float(error[index]) > max_error:
                max_error = max(max_error, float(error[index]))
                worst = (start + index, float(a[index]), float(t[index]))
    return Difference(
        count, wrong, max_error=max_error, worst_ratio=math.inf if wrong else 0.0, worst=worst
    )


def largest_gap(left: torch.Tensor, right: torch.Tensor) -> float:
    """Largest |left - right| over the elements where both are finite."""
    flat_left, flat_right, largest = _flat(left), _flat(right), 0.0
    chunk = chunk_of(flat_left)
    for start in range(0, flat_left.numel(), chunk):
        here = flat_left[start : start + chunk].to(torch.float64)
        gap = (here - flat_right[start : start + chunk].to(torch.float64)).abs_()
        top = float(gap.max())
        if not math.isfinite(top):
            gap = gap[torch.isfinite(gap)]
            top = float(gap.max()) if gap.numel() else 0.0
        largest = max(largest, top)
    return largest


def rms(tensor: torch.Tensor) -> float:
    """Root mean square of the finite elements, 0 when there are none."""
    flat, total = _flat(tensor), 0.0
    chunk = chunk_of(flat)
    for start in range(0, flat.numel(), chunk):
        part = flat[start : start + chunk].to(torch.float64)
        total += float(part.dot(part))
    if 1e-280 < total < math.inf:
        return math.sqrt(total / flat.numel())
    return _careful_rms(flat)


def _careful_rms(flat: torch.Tensor) -> float:
    """The same with special values, and with squares that leave the range of float64."""
    peak, total, count = 0.0, 0.0, 0
    for start in range(0, flat.numel(), CHUNK):
        part = flat[start : start + CHUNK].to(torch.float64)
        part = part[torch.isfinite(part)]
        if part.numel():
            top = float(part.abs().max())
            if top > peak:  # sums are kept in units of the peak
                total *= (peak / top) ** 2
                peak = top
            if peak > 0:
                total += float((part / peak).square().sum())
            count += part.numel()
    return peak * math.sqrt(total / count) if count else 0.0


def chunk_of(tensor: torch.Tensor) -> int:
    """Elements to look at in one go."""
    return CHUNK if tensor.device.type == "cpu" else DEVICE_CHUNK


def same_bits(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether two tensors of one shape and dtype are equal bit by bit (NaN equals itself)."""
    if left.numel() == 0:
        return True
    if left.is_complex():
        left, right = torch.view_as_real(left), torch.view_as_real(right)
    bits = _BITS[left.element_size()]
    return torch.equal(left.detach().view(bits), right.detach().view(bits))


def bits_agree(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """The same as `same_bits`, not waited for."""
    if left.is_complex():
        left, right = torch.view_as_real(left), torch.view_as_real(right)
    bits = _BITS[left.element_size()]
    return (left.detach().view(bits) == right.detach().view(bits)).all()


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    tensor = tensor.detach()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    return tensor.reshape(-1)
