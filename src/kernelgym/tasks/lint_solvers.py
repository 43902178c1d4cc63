"""Solvers that know nothing: a task that accepts one of them teaches a policy to cheat.

Each makes answers to the second inputs from things that need no computation. `None` means that the
solver has nothing to offer for this task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from kernelgym.judge.inputs import POISON
from kernelgym.tasks.lint_runs import Answers

Answer = list[torch.Tensor]


@dataclass(frozen=True)
class Solver:
    """One trivial candidate."""

    id: str
    reason: str
    """What it means when the task accepts it."""
    answers: Callable[[Answers], Iterator[Answer]]
    whole: bool = False
    """Needs the runs that only a whole lint makes."""


def _filled(value: float) -> Callable[[Answers], Iterator[Answer]]:
    def answers(known: Answers) -> Iterator[Answer]:
        yield [torch.full_like(tensor, value) for tensor in known.second.tensors]

    return answers


def _constants(known: Answers) -> Iterator[Answer]:
    """One number an output, taken from the first answer: its mean, its middle, its most common."""
    looks = [_looks(tensor) for tensor in known.first.tensors]
    for choice in range(3):
        yield [
            torch.full_like(target, values[choice])
            for target, values in zip(known.second.tensors, looks, strict=True)
        ]


def _looks(tensor: torch.Tensor) -> tuple[float, float, float]:
    if tensor.numel() == 0 or tensor.is_complex():
        return 0.0, 0.0, 0.0
    flat = tensor.reshape(-1).to(torch.float64)
    flat = flat[torch.isfinite(flat)]
    if flat.numel() == 0:
        return 0.0, 0.0, 0.0
    middle = (float(flat.min()) + float(flat.max())) / 2
    return float(flat.mean()), middle, float(flat.median())


def _first_answer(known: Answers) -> Iterator[Answer]:
    yield known.first.tensors


def _passthrough(known: Answers) -> Iterator[Answer]:
    """For each output the first input that has its shape and type."""
    found = []
    for target in known.second.tensors:
        fitting = (t for t in known.inputs if (t.shape, t.dtype) == (target.shape, target.dtype))
        found.append(next(fitting, None))
    if all(tensor is not None for tensor in found):
        yield [tensor for tensor in found if tensor is not None]


def _other_parameters(known: Answers) -> Iterator[Answer]:
    if known.other_parameters is not None:
        yield known.other_parameters.tensors


def _stale_memory(known: Answers) -> Iterator[Answer]:
    """Memory that nothing was written to: the poison, or bytes of an input."""
    for value in POISON:
        yield [_bytes_as(target, value) for target in known.second.tensors]
    for given in known.inputs:
        found = [_reinterpreted(given, target) for target in known.second.tensors]
        if all(tensor is not None for tensor in found):
            yield [tensor for tensor in found if tensor is not None]


def _bytes_as(target: torch.Tensor, value: int) -> torch.Tensor:
    filled = torch.empty_like(target, memory_format=torch.contiguous_format)
    filled.reshape(-1).view(torch.uint8).fill_(value)
    return filled


def _reinterpreted(given: torch.Tensor, target: torch.Tensor) -> torch.Tensor | None:
    size = target.numel() * target.element_size()
    raw = given.contiguous().reshape(-1).view(torch.uint8)
    if raw.numel() < size or target.dtype == torch.bool:
        return None
    return raw[:size].clone().view(target.dtype).reshape(target.shape)


SOLVERS = (
    Solver("accepts_zeros", "all zeros are accepted", _filled(0.0)),
    Solver("accepts_ones", "all ones are accepted", _filled(1.0)),
    Solver("accepts_constant", "one constant is accepted", _constants),
    Solver(
        "accepts_first_answer",
        "the answer to other inputs is accepted: the inputs hardly matter",
        _first_answer,
    ),
    Solver("accepts_passthrough", "an input returned unchanged is accepted", _passthrough),
    Solver(
        "accepts_other_parameters",
        "a model with other parameters is accepted: the parameters hardly matter",
        _other_parameters,
        whole=True,
    ),
    Solver(
        "accepts_stale_memory",
        "memory that was never written to is accepted",
        _stale_memory,
    ),
)
