"""What the task lint runs of a reference, and what it keeps of it.

Two sets of inputs, the answers to both, the answer of a model with other parameters, and the noise
of the reference between two precisions. Everything runs in this process: call it only where the
reference may run (see `kernelgym.tasks.lint`).
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain

import torch

from kernelgym.errors import TaskError
from kernelgym.judge.inputs import Arguments
from kernelgym.judge.noise import oracle_dtype, wide_call, worst_differences
from kernelgym.judge.reference import Reference, Returned, state_of
from kernelgym.schema import Mode, Task


@dataclass
class Answers:
    """Runs in one mode."""

    mode: Mode
    first: Returned
    """Answer to the first inputs."""
    inputs: list[torch.Tensor]
    """The second inputs, as they were before the call."""
    second: Returned
    """Answer to the second inputs: what a candidate is compared with."""
    other_parameters: Returned | None = None
    """A model initialised from another seed, on the second inputs; None where no seed matters."""
    noise: list[float] = field(default_factory=list)
    """Of each output; zeros where a wider precision was refused."""


class Runner:
    """Runs one reference on a CPU."""

    def __init__(
        self, task: Task, *, seed: int = 0, limit_s: float = 60.0, device: str = "cpu"
    ) -> None:
        """``limit_s`` bounds each single run of the reference's code."""
        draw = random.Random(seed)
        self.init_seed, self.other_seed, self.first_seed, self.second_seed, self.call_seed = (
            draw.getrandbits(40) for _ in range(5)
        )
        self.reference = Reference(
            task.reference, task.entry_point, dtype=torch.float32, device=device, limit_s=limit_s
        )
        self.init = self.reference.make_init_arguments(self.init_seed)
        self.model = self.reference.instantiate(self.init, self.init_seed)
        self._versions = self._state_versions()

    @cached_property
    def other_model(self) -> torch.nn.Module:
        """The model from another seed."""
        return self.reference.instantiate(self.init, self.other_seed)

    def parameters(self) -> dict[str, torch.Tensor]:
        """Floating-point parameters and buffers of the model."""
        return {n: t for n, t in state_of(self.model).items() if t.is_floating_point()}

    def fixed_parameters(self) -> set[str]:
        """Those that are the same whatever the seed: norms that start from ones and zeros."""
        state = self.parameters()
        other = state_of(self.other_model) if state else {}
        return {name for name, tensor in state.items() if torch.equal(tensor, other[name])}

    def answer(
        self,
        mode: Mode,
        inputs: Arguments,
        *,
        model: torch.nn.Module | None = None,
        seed: int | None = None,
    ) -> Returned:
        """One call. The model is made anew where an earlier call has changed it."""
        if model is None and self._state_versions() != self._versions:
            self.model = self.reference.instantiate(self.init, self.init_seed)
            self._versions = self._state_versions()
        returned = self.reference.call(
            self.model if model is None else model,
            mode,
            inputs,
            self.call_seed if seed is None else seed,
        )
        # Outputs may be views of inputs or of parameters; what they say now is what counts.
        return Returned(returned.node, [tensor.detach().clone() for tensor in returned.tensors])

    def _state_versions(self) -> list[int]:
        return [t._version for t in chain(self.model.parameters(), self.model.buffers())]

    def modes(self) -> Iterator[Mode]:
        """``eval``, and ``train`` where it gives another answer that is not random."""
        yield "eval"
        plain, again = self._answer_again("eval", 0), self._answer_again("eval", 1)
        if not _same(plain, again):
            raise TaskError(
                "reference_nondeterministic",
                "the reference gives two answers on the same inputs in eval mode",
            )
        trained = self._answer_again("train", 0)
        if not _same(plain, trained) and _same(trained, self._answer_again("train", 1)):
            yield "train"

    def _answer_again(self, mode: Mode, number: int) -> Returned:
        inputs = self.reference.make_inputs(self.second_seed)
        return self.answer(mode, inputs, seed=self.call_seed + number)

    def answers(self, mode: Mode, *, whole: bool) -> Answers:
        """All runs in one mode; without ``whole`` only the two answers and the noise."""
        make = self.reference.make_inputs
        first = self.answer(mode, make(self.first_seed))
        given = make(self.second_seed)
        kept = [tensor.clone() for tensor in given.tensors]
        found = Answers(mode, first, kept, self.answer(mode, given))
        if whole and not self.fixed_parameters() >= self.parameters().keys():
            inputs = make(self.second_seed)
            found.other_parameters = self.answer(mode, inputs, model=self.other_model)
        found.noise = self._noise(mode, found.second)
        return found

    def _noise(self, mode: Mode, narrow: Returned) -> list[float]:
        model = self.reference.instantiate(self.init, self.init_seed)
        inputs = self.reference.make_inputs(self.second_seed)
        dtype = oracle_dtype(self.reference.dtype)
        try:
            return worst_differences(narrow, wide_call(self.reference, model, mode, inputs, dtype))
        except (TaskError, ValueError):
            return [0.0] * len(narrow.tensors)

    def with_first_input(self, mode: Mode, index: int) -> Returned:
        """The second inputs, except that one tensor is that of the first inputs."""
        first = self.reference.make_inputs(self.first_seed)
        second = self.reference.make_inputs(self.second_seed)
        second.tensors[index] = first.tensors[index]
        return self.answer(mode, Arguments(second.node, second.tensors))

    def with_other_parameter(self, mode: Mode, name: str) -> Returned:
        """One parameter or buffer replaced by other values of the same scale."""
        inputs = self.reference.make_inputs(self.second_seed)
        with torch.no_grad():
            tensor = state_of(self.model)[name]
            before = tensor.clone()
            spread = float(tensor.abs().max()) if tensor.numel() else 0.0
            tensor.add_(torch.rand_like(tensor) * (spread or 1.0))
            self._versions = self._state_versions()
            changed = self.answer(mode, inputs)
            state_of(self.model)[name].copy_(before)
            self._versions = self._state_versions()
        return changed


def _same(left: Returned, right: Returned) -> bool:
    pairs = zip(left.tensors, right.tensors, strict=True)
    if len(left.tensors) != len(right.tensors):
        return False
    return all(
        a.shape == b.shape and torch.allclose(a, b, rtol=1e-4, atol=1e-6, equal_nan=True)
        for a, b in pairs
    )
