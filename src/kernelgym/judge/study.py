"""What the judge learns about a reference once a task, before any candidate exists.

* sizes of inputs, outputs and state;
* whether it is random: two runs on the same inputs with other seeds differ. Random in train mode:
  compared in eval mode only. Random in eval mode, too (an initial state drawn in ``forward``): both
  sides get the same seed before each call, and a candidate must draw alike. A reference that
  differs between two runs with one seed cannot be judged at all;
* its noise: the worst difference between its own precisions, see `kernelgym.judge.noise`. One that
  cannot run in the wider precision has noise 0 from there, and that is said; so is an output that
  is smaller than what its noise allows;
* which operators of torch it runs, and which outputs share memory with inputs or parameters.

Each run starts from a fresh copy of the model, so that nothing seen here moves the state that
candidates are compared with.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from kernelgym.errors import TaskError
from kernelgym.judge import compare, fit, noise, protocols
from kernelgym.judge.census import OperatorCensus
from kernelgym.judge.inputs import (
    Arguments,
    dense_size,
    draw_seed,
    generator_state,
    seeded_state,
    storage_bytes,
)
from kernelgym.judge.reference import Reference, Returned, state_of
from kernelgym.sandbox import aliasing, pinning
from kernelgym.sandbox.pool import place
from kernelgym.schema import Mode

SLOW_S = 2.0
"""A forward call longer than this is not repeated when it has drawn no random number."""
MODES: tuple[Mode, ...] = ("eval", "train")


@dataclass
class Study:
    """Facts about a reference."""

    input_bytes: int = 0
    """Span of the inputs in a pool."""
    output_bytes: int = 0
    """Dense copies of the outputs of one call."""
    state_bytes: int = 0
    """Parameters and buffers."""
    random_in_train: bool = False
    """Train mode draws random numbers: compared in eval mode only."""
    random_in_eval: bool = False
    """Eval mode draws random numbers that show in the outputs: compared under a shared seed."""
    noise: dict[Mode, list[float]] = field(default_factory=dict)
    """Worst difference between precisions, for each output tensor."""
    changed: dict[Mode, list[bool]] = field(default_factory=dict)
    """Which input tensors a call changes in place."""
    stateless: dict[Mode, bool] = field(default_factory=dict)
    """Whether a second call of the same model on the same inputs gives the same answer and leaves
    the same state: then its answers may be kept for later candidates."""
    shared: dict[Mode, frozenset[str]] = field(default_factory=dict)
    """What outputs share memory with: ``input``, ``state``, ``output``."""
    operators: dict[Mode, dict[str, int]] = field(default_factory=dict)
    """Operators of one call."""
    flops: dict[Mode, int] = field(default_factory=dict)
    """Floating-point operations of one call that can be counted."""
    seconds: float = 0.0
    """Longest forward call seen."""
    notes: list[str] = field(default_factory=list)
    """What was left out, and why."""

    def dump(self) -> dict[str, Any]:
        """As JSON data, for another judge of the same task."""
        shared = {mode: sorted(kinds) for mode, kinds in self.shared.items()}
        return {**asdict(self), "shared": shared}

    @classmethod
    def load(cls, data: dict[str, Any]) -> Study:
        """What `dump` made."""
        shared = {mode: frozenset(kinds) for mode, kinds in data["shared"].items()}
        return cls(**{**data, "shared": shared})


class Student:
    """Runs the reference to fill a `Study`."""

    def __init__(
        self,
        reference: Reference,
        model: torch.nn.Module,
        init: Arguments,
        *,
        init_seed: int,
        memory_bytes: int,
        announce: Callable[[], None],
    ) -> None:
        """``announce`` is called before each run of the reference's code."""
        self.announce = announce
        self.reference = reference
        self.model = model
        self.init = init
        self.init_seed = init_seed
        self.memory_bytes = memory_bytes
        self.input_seed, self._call_seed = draw_seed(), draw_seed()
        self._drew = False
        self.study = Study(state_bytes=storage_bytes(list(state_of(model).values())))

    def learn(self, known: Study | None = None) -> Study:
        """Run every look; raises `TaskError` for a reference that cannot be judged.

        ``known``: what another judge has learned of this task, which is taken over.
        """
        if known is not None:
            self.study = known
            self.check_fit(self.memory_bytes)
            return known
        self._weigh()
        for mode in MODES:
            with self._outputs(mode) as first:
                if self._varies(mode, first):
                    self._accept_randomness(mode, first)
                else:
                    self.study.noise[mode] = self._noise(mode, first)
        return self.study

    def _weigh(self) -> None:
        """Sizes of the inputs; refuses a task whose inputs and state alone are too large."""
        limit = self.memory_bytes
        with fit.AllocationLimit(limit // 2, "its inputs"):
            inputs = self.reference.make_inputs(self.input_seed)
        self.study.input_bytes = place(inputs.tensors)[1]
        self.check_fit(limit)

    def check_fit(self, limit: int) -> None:
        """Refuse when pools, expected outputs and two copies of the state pass ``limit``."""
        need = self.need_bytes()
        if need > limit:
            raise fit.does_not_fit(need, limit, "its inputs, outputs and parameters")

    def need_bytes(self) -> int:
        """Pools, expected outputs and two copies of the state."""
        study = self.study
        return 2 * study.input_bytes + 2 * study.output_bytes + 2 * study.state_bytes

    @contextmanager
    def _outputs(self, mode: Mode) -> Iterator[Returned]:
        """The first run in a mode: outputs, census, sizes, time."""
        model = self._fresh_model()
        inputs = self._inputs()
        started = time.monotonic()
        with OperatorCensus() as census:
            returned = self.reference.call(model, mode, inputs, self._call_seed)
        self._drew = generator_state() != seeded_state(self._call_seed)
        self.study.seconds = max(self.study.seconds, time.monotonic() - started)
        self.study.operators[mode] = dict(census.counts)
        self.study.flops[mode] = census.flops
        self.study.output_bytes = max(self.study.output_bytes, dense_size(returned.tensors))
        self.study.shared[mode] = shared_memory(returned.tensors, inputs.tensors, state_of(model))
        self.check_fit(self.memory_bytes)
        self.study.changed[mode] = [
            not compare.same_bits(before, after)
            for before, after in zip(self._inputs().tensors, inputs.tensors, strict=True)
        ]
        self.study.stateless[mode] = self._is_stateless(model, mode, returned)
        yield returned

    def _is_stateless(self, model: torch.nn.Module, mode: Mode, first: Returned) -> bool:
        if self.study.seconds > SLOW_S or self.study.shared[mode]:
            return False
        if not _same_state(state_of(model), state_of(self.model)):
            return False
        return _close(first, self.reference.call(model, mode, self._inputs(), self._call_seed))

    def _fresh_model(self) -> torch.nn.Module:
        return self.reference.copy(self.model, self.init, self.init_seed)

    def _varies(self, mode: Mode, first: Returned) -> bool:
        """Whether another seed gives another answer on the same inputs."""
        if self.study.seconds > SLOW_S and not self._drew:
            return False
        if _close(first, self._again(mode, self._call_seed + 1)):
            return False
        if not _close(first, self._again(mode, self._call_seed)):
            raise TaskError(
                "reference_nondeterministic",
                f"the reference gives two answers on the same inputs and seed in {mode} mode",
            )
        return True

    def _accept_randomness(self, mode: Mode, first: Returned) -> None:
        if mode == "train":
            self.study.random_in_train = True
            return
        self.study.random_in_eval = True
        self.study.noise[mode] = self._noise(mode, first)
        self.study.notes.append(
            "draws random numbers in eval mode: both sides have the same seed before each call"
        )

    def _again(self, mode: Mode, seed: int) -> Returned:
        return self.reference.call(self._fresh_model(), mode, self._inputs(), seed)

    def _noise(self, mode: Mode, first: Returned) -> list[float]:
        """Worst difference, for each output tensor, between the reference's own precisions."""
        found = self._rounding_noise(mode, first)
        if noise.has_tf32(self.reference.dtype, self.reference.device):
            found = noise.worst_of(found, self._tf32_noise(mode, first))
        self._note_hidden(first, found)
        return found

    def _rounding_noise(self, mode: Mode, first: Returned) -> list[float]:
        """From a run in the wider precision."""
        study, none = self.study, [0.0] * len(first.tensors)
        if study.random_in_eval:
            return none  # other precisions draw other numbers
        wider = noise.oracle_dtype(self.reference.dtype)
        need = 3 * study.input_bytes + 3 * study.output_bytes + 4 * study.state_bytes
        if need > self.memory_bytes:
            study.notes.append("noise not measured: a wider precision does not fit")
            return none
        try:
            model = self._fresh_model()
            second = noise.wide_call(self.reference, model, mode, self._inputs(), wider)
            return noise.worst_differences(first, second)
        except (TaskError, ValueError) as error:
            study.notes.append(f"noise not measured: the reference refuses {wider}: {error}"[:300])
            return none

    def _tf32_noise(self, mode: Mode, first: Returned) -> list[float]:
        """Between runs with TF32 and without, on the same inputs and seed."""
        study = self.study
        need = study.input_bytes + 3 * study.output_bytes + 2 * study.state_bytes
        if need > self.memory_bytes:
            study.notes.append("noise not measured with TF32: three answers do not fit")
            return [0.0] * len(first.tensors)
        answers = []
        for allowed in (True, False):
            with pinning.tf32(allowed):
                answers.append(self._again(mode, self._call_seed))
        return noise.worst_differences(*answers)

    def _note_hidden(self, first: Returned, found: list[float]) -> None:
        """Say which outputs are smaller than what their noise allows to be wrong."""
        for index, (tensor, value) in enumerate(zip(first.tensors, found, strict=True)):
            allowed = protocols.NOISE_FACTOR * value
            if value and 0 < (scale := compare.rms(tensor)) <= allowed:
                self.study.notes.append(
                    f"output {index} has rms {scale:.3g}, and its noise allows {allowed:.3g}:"
                    " wrong answers may pass under the protocol standard"
                )

    def _inputs(self) -> Arguments:
        self.announce()
        return self.reference.make_inputs(self.input_seed)


def _same_state(left: Mapping[str, torch.Tensor], right: Mapping[str, torch.Tensor]) -> bool:
    return left.keys() == right.keys() and all(
        compare.same_bits(tensor, right[name]) for name, tensor in left.items()
    )


def _close(left: Returned, right: Returned) -> bool:
    """Equal up to what an atomic addition may do to the order of a sum."""
    if left.node != right.node or len(left.tensors) != len(right.tensors):
        return False
    return all(_tensors_close(a, b) for a, b in zip(left.tensors, right.tensors, strict=True))


def _tensors_close(left: torch.Tensor, right: torch.Tensor) -> bool:
    if left.shape != right.shape or left.dtype != right.dtype:
        return False
    if compare.same_bits(left, right):
        return True
    if not noise.is_inexact(left):
        return False
    allowance = protocols.strict(left.dtype, compare.rms(left), 0.0)
    return compare.difference(right, left, allowance).wrong == 0


def shared_memory(
    outputs: Sequence[torch.Tensor],
    inputs: Sequence[torch.Tensor],
    state: Mapping[str, torch.Tensor],
) -> frozenset[str]:
    """What kinds of memory outputs share: ``input``, ``state``, ``output`` (each other)."""
    others = aliasing.ranges("input", enumerate(inputs)) + aliasing.ranges("state", state.items())
    return frozenset(found.split()[1] for found in aliasing.aliases(outputs, others))
