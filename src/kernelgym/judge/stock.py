"""Secret inputs of timed calls, and what the reference makes of them, made before they are needed.

Each set is seen by a candidate at most once, that of its warm-up calls apart. Another candidate of
the same task, which shares nothing with the first, may be given it again: that saves running the
reference for every timed call of every rollout. Sets are replaced little by little. A reference
whose answers may depend on earlier calls gets a fresh set for every call.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from kernelgym.judge import inputs
from kernelgym.judge.answers import Expected
from kernelgym.judge.inputs import Arguments, draw_seed
from kernelgym.judge.prepare import PreparedTask, as_oracle
from kernelgym.judge.quick import Bounds
from kernelgym.sandbox.pool import TensorLayout, place
from kernelgym.sandbox.tree import Node
from kernelgym.schema import Mode

SHELF_BYTES = 3 << 30
"""Sets kept for a task in a mode."""
SHELF_PART = 64
"""At most this part of the device's memory."""
SHELF_LIMIT = 640
REPLACED = 4
"""Sets that make room with every candidate, once the shelf is full."""
_KEPT = "stock"


@dataclass(frozen=True)
class Prepared:
    """One set."""

    node: Node
    """The arguments."""
    layouts: tuple[TensorLayout, ...]
    """Where their tensors will lie, from the start of the set."""
    size: int
    """Bytes of the set."""
    parts: tuple[tuple[int, torch.Tensor], ...]
    """Their bytes, in memory that no candidate has, and where each part belongs."""
    call_seed: int
    """Of the generators during the call."""
    expected: Expected
    bounds: Bounds = field(default_factory=dict)
    """Filled in when answers are compared."""


@dataclass
class Stock:
    """What one candidate is given, in one evaluation."""

    task: PreparedTask
    model: torch.nn.Module
    """The reference's, which lives through the calls that the candidate lives through: asked where
    answers may depend on earlier calls. Elsewhere a model as its constructor left it is asked, and
    the candidate's buffers are restored before it is timed."""
    memory_bytes: int
    """Of the device."""
    oracle: torch.nn.Module | None = None
    """The model in fp64, where answers are compared with it (``strict``): it lives as ``model``
    does."""
    _used: dict[Mode, int] = field(default_factory=dict)
    _fresh: torch.nn.Module | None = None
    _fresh_oracle: torch.nn.Module | None = None
    _again: dict[Mode, Prepared] = field(default_factory=dict)

    def take(self, mode: Mode) -> Prepared:
        """A set that this candidate has not seen."""
        if not self.task.study.stateless.get(mode, False):
            return self._make(mode)
        kept = _KEPT if self.oracle is None else f"{_KEPT} with oracle"
        shelves: dict[Mode, list[Prepared]] = self.task.kept.setdefault(kept, {})
        shelf = shelves.setdefault(mode, [])
        if mode not in self._used:
            self._used[mode] = 0
            if len(shelf) >= self._limit():
                del shelf[:REPLACED]
        index = self._used[mode]
        self._used[mode] += 1
        if index < len(shelf):
            return shelf[index]
        made = self._make(mode)
        if len(shelf) < self._limit():
            shelf.append(made)
        return made

    def take_again(self, mode: Mode) -> Prepared:
        """A set for calls that are not timed: always the same, where the reference allows it."""
        if not self.task.study.stateless.get(mode, False):
            return self._make(mode)
        if mode not in self._again:
            self._again[mode] = self.take(mode)
        return self._again[mode]

    def _limit(self) -> int:
        study = self.task.study
        room = min(SHELF_BYTES, self.memory_bytes // SHELF_PART) if self.memory_bytes else 0
        return min(SHELF_LIMIT, room // max(1, study.input_bytes + study.output_bytes))

    def _model(self, mode: Mode) -> torch.nn.Module:
        if not self.task.study.stateless.get(mode, False):
            return self.model
        if self._fresh is None:
            self._fresh = self.task.fresh_model()
        return self._fresh

    def _wide(self, mode: Mode, own: Arguments) -> list[torch.Tensor]:
        if self.oracle is None:
            return []
        model = self.oracle
        if self.task.study.stateless.get(mode, False):
            self._fresh_oracle = self._fresh_oracle or self.task.oracle_model()
            model = self._fresh_oracle
        return self.task.reference.call(model, mode, as_oracle(own), 0).tensors

    def _make(self, mode: Mode) -> Prepared:
        reference, study = self.task.reference, self.task.study
        own = reference.make_inputs(draw_seed())
        layouts, size = place(own.tensors)
        if not any(study.changed.get(mode, (True,))):
            parts = inputs.parts(layouts, own.tensors)
        else:  # the reference is about to change them
            private = torch.empty(size, dtype=torch.uint8, device=reference.device)
            inputs.copy_into(private, layouts, own.tensors)
            parts = [(0, private)]
        call_seed, oracle = draw_seed(), self._wide(mode, own)
        returned = reference.call(self._model(mode), mode, own, call_seed)
        expected = Expected(
            returned.node,
            returned.tensors,
            study.noise.get(mode, []),
            oracle,
            study.shared.get(mode, frozenset()),
        )
        return Prepared(own.node, tuple(layouts), size, tuple(parts), call_seed, expected)
