"""A task made ready once, for any number of candidates: model, seeds, sizes, facts.

The state that candidates are compared with: every evaluation starts from a fresh copy of the model
as the constructor left it, on both sides, and then lives through the same calls, eval before train.
A reference whose answers depend on earlier calls is thus matched by a candidate that keeps the same
state; one that never updates running statistics is not found out, because they do not enter the
output of a training call, and eval calls come first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from kernelgym.judge.fit import AllocationLimit
from kernelgym.judge.inputs import Arguments, copy_into, draw_seed
from kernelgym.judge.protocols import DTYPES
from kernelgym.judge.reference import Reference, convert_module, state_of
from kernelgym.judge.study import Student, Study
from kernelgym.sandbox import pinning
from kernelgym.sandbox.messages import Build
from kernelgym.sandbox.pool import HostPool, Pool, place
from kernelgym.schema import Precision, Submission, Task


class PreparedTask:
    """A task whose reference has been loaded, studied and found fit to judge by."""

    def __init__(
        self,
        task: Task,
        precision: Precision,
        *,
        device: str,
        limit_s: float,
        memory_bytes: int,
        announce: Callable[[], None] = lambda: None,
        study: Study | None = None,
    ) -> None:
        """Raises `TaskError` for every fault of the reference.

        ``limit_s`` bounds each single run of its code; ``announce`` is called before each.
        ``study``: what is known about the reference already.
        """
        self.device = device
        self.precision = precision
        pinning.restore()
        self.reference = Reference(
            task.reference,
            task.entry_point,
            dtype=DTYPES[precision],
            device=device,
            limit_s=limit_s,
        )
        self.init_seed = draw_seed()
        with AllocationLimit(memory_bytes // 2, "its parameters"):
            self.init = self.reference.make_init_arguments(self.init_seed)
            self.model = self.reference.instantiate(self.init, self.init_seed)
        self.switches = pinning.restore()
        """Switches of torch that its code had set, with their values, before they were put back."""
        self.student = Student(
            self.reference,
            self.model,
            self.init,
            init_seed=self.init_seed,
            memory_bytes=memory_bytes,
            announce=announce,
        )
        self.study = self.student.learn(study)
        self.kept: dict[str, Any] = {}
        """What later evaluations of this task may use again, by whose it is."""

    def fresh_model(self) -> torch.nn.Module:
        """The reference's model as its constructor left it."""
        return self.reference.copy(self.model, self.init, self.init_seed)

    def oracle_model(self) -> torch.nn.Module:
        """The same in fp64, for ``strict``."""
        return convert_module(self.fresh_model(), torch.float64)

    def build_request(self, submission: Submission) -> tuple[Build, Pool]:
        """How to build the candidate's module, and a pool that holds the tensors for it."""
        state = state_of(self.model)
        tensors = [*self.init.tensors, *state.values()]
        layouts, size = place(tensors)
        pool = make_pool(self.device, size)
        copy_into(pool.flat, layouts, tensors)
        arguments = layouts[: len(self.init.tensors)]
        request = Build(
            entry_point=submission.entry_point,
            arguments=self.init.node,
            argument_tensors=tuple(arguments),
            seed=self.init_seed,
            state=dict(zip(state, layouts[len(arguments) :], strict=True)),
            precision=self.precision,
        )
        return request, pool


def make_pool(device: str, size: int) -> Pool:
    """Shared memory on a device."""
    if device == "cpu":
        return HostPool(size)
    from kernelgym.cuda.driver import driver
    from kernelgym.cuda.vmm import VmmPool

    return VmmPool(driver(), size)


def as_oracle(inputs: Arguments) -> Arguments:
    """Independent inputs of the same values, in fp64 where they are floating point."""
    wide = [
        tensor.to(torch.float64) if tensor.is_floating_point() else tensor.clone()
        for tensor in inputs.tensors
    ]
    return Arguments(inputs.node, wide)
