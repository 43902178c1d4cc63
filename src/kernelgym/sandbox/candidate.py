"""The candidate's process: the harness that loads, builds and calls code nobody trusts.

    READY, then answers to SETUP, LOAD, BUILD, CALL ..., REPORT, until STOP

It shares its process with the candidate, so nothing it says decides anything: it carries inputs
in, outputs and claims out. Its tasks: restore what the reference would see (seed, state, modes),
describe failures in words, never die of what a candidate returns or raises. Deadlines, memory,
comparison and verdict are the judge's.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from pydantic import BaseModel

from kernelgym import backends
from kernelgym.sandbox import (
    aliasing,
    building,
    calling,
    counting,
    cpu_timing,
    failures,
    filling,
    pinning,
    redirect,
    sealing,
    serving,
)
from kernelgym.sandbox.frames import Channel, Frame, Kind
from kernelgym.sandbox.loader import LoadedSource
from kernelgym.sandbox.messages import Build, Call, Claims, Failed, Output, Prepare, Setup
from kernelgym.sandbox.pool import Pool
from kernelgym.sandbox.pools import open_pool
from kernelgym.sandbox.seeding import seed_everything
from kernelgym.sandbox.workspace import Workspace
from kernelgym.trace import ablation, gate_hook
from kernelgym.trace.census import Census
from kernelgym.trace.recorder import Recorder

_synchronize = torch.cuda.synchronize
"""As it was before a candidate could replace it."""


class Candidate:
    """State of the harness, one method a request."""

    def __init__(self, recorder: Recorder, workspace: Workspace, channel: Channel) -> None:
        self._recorder = recorder
        self._workspace = workspace
        self._channel = channel
        self._setup: Setup | None = None
        self._pools: list[Pool] = []
        self._loaded: LoadedSource | None = None
        self._module: Any = None
        self._build: Build | None = None
        self._kept: list[torch.Tensor] = []
        self._timing: Any = None
        self._fill: int | None = None

    def handlers(self) -> dict[Kind, serving.Handler]:
        """Which method answers which request."""
        return {
            Kind.SETUP: self.setup,
            Kind.LOAD: self.load,
            Kind.BUILD: self.build,
            Kind.PREPARE: self.prepare,
            Kind.CALL: self.call,
            Kind.REPORT: self.report,
            Kind.CLOCK: self.clock,
            Kind.TIME: self.time,
        }

    def describe(self, error: BaseException) -> Failed:
        """An exception in words."""
        return failures.describe(error, self._workspace.source / failures.FILE)

    def setup(self, request: Frame) -> tuple[Kind, Claims]:
        """Map the pools, set torch's switches, install the backend's hooks."""
        setup = Setup.model_validate_json(request.body)
        for size, fd in zip(setup.pool_bytes, request.fds, strict=True):
            self._pools.append(open_pool(setup.device, size, fd))
        pinning.restore()
        if setup.interpret:
            os.environ["TRITON_INTERPRET"] = "1"
        backends.get(setup.backend).prepare(self._recorder, interpret=setup.interpret)
        if setup.device == "cpu":
            redirect.install(self._recorder)
        else:
            gate_hook.install_over(self._channel, self._recorder)
        self._setup = setup
        return Kind.DONE, Claims(switches=pinning.read())

    def load(self, request: Frame) -> tuple[Kind, Claims]:
        """Import the candidate's source."""
        assert self._setup is not None
        backend = backends.get(self._setup.backend)
        if self._on_gpu() and (why_not := sealing.seal()):
            self._recorder.note(f"a second context is not prevented: {why_not}", "second_context")
        with self._candidate_code(request):
            self._loaded = backend.load(request.body, self._workspace.source, self._recorder)
        return Kind.DONE, Claims(switches=pinning.read())

    def build(self, request: Frame) -> tuple[Kind, Claims]:
        """Make the module and copy the reference's state into it."""
        assert self._setup is not None
        assert self._loaded is not None
        body = Build.model_validate_json(request.body)
        with self._candidate_code(request):
            entry_point = getattr(self._loaded.module, body.entry_point)
            built = building.construct(entry_point, body, self._pools[0].flat, self._setup.device)
            if self._on_gpu():
                _synchronize()  # others may want to be alone on the device before the first call
        self._module, self._build = built.module, body
        return Kind.DONE, Claims(
            notes=tuple(built.notes[:100]),
            copied_state=tuple(built.copied),
            missing_state=tuple(built.missing),
        )

    def prepare(self, request: Frame) -> tuple[Kind, Claims]:
        """Take note of how the next call is observed; nothing of it is left when that is over."""
        body = Prepare.model_validate_json(request.body)
        self._recorder.suppress(body.suppress)
        self._recorder.watching = body.watch
        self._fill = body.fill
        return Kind.DONE, Claims()

    def call(self, request: Frame) -> tuple[Kind, Output]:
        """Call the module once on fresh inputs."""
        body = Call.model_validate_json(request.body)
        inputs, tensors = calling.arguments(body, self._pools[1].flat)
        census = Census(self._recorder, self._fill)
        filling.fill_free_blocks(self._kept, self._fill or 0)
        before = counting.count()
        known = calling.input_ranges(tensors)
        self._recorder.inputs = tuple((place.low, place.high) for place in known)
        with self._candidate_code(request):
            self._set_mode(body.mode)
            seed_everything(body.seed)
            with torch.no_grad(), census if self._counts() else contextlib.nullcontext():
                value = self._module(*inputs)
            self._recorder.operators(census.counts)
            returned = calling.Returned(value)
        after = counting.count()
        others = known
        others += aliasing.ranges("state", building.named_state(self._module).items())
        earlier = self._kept if body.keep else []
        output = returned.answer(self._pools[2].flat, body.output_offset, others, earlier)
        if body.keep:
            self._kept = returned.tensors
        if self._on_gpu():
            _synchronize()  # the judge's context does not wait for ours
        seen = {
            "threads": (before.threads, after.threads),
            "children": (before.children, after.children),
        }
        return Kind.OUTPUT, output.model_copy(update=seen)

    def clock(self, request: Frame) -> tuple[Kind, Claims]:
        """Prepare timed calls (GPU only)."""
        from kernelgym.cuda import device
        from kernelgym.cuda.driver import driver
        from kernelgym.sandbox.clock_messages import Clock
        from kernelgym.sandbox.timing import Timing

        body = Clock.model_validate_json(request.body)
        self._timing = Timing(driver(), body, request.fds[0], self._recorder)
        device.reserve(body.reserve_bytes)
        filling.fill_free_blocks([torch.empty(64, device="cuda")], 0)  # loads it
        ablation.rehearse()
        return Kind.DONE, Claims(notes=tuple(self._timing.notes))

    def time(self, request: Frame) -> tuple[Kind, BaseModel]:
        """Run one armed bracket; on a CPU a few calls."""
        if not self._on_gpu():
            return Kind.TIMED, self._time_on_cpu(request)
        from kernelgym.sandbox.clock_messages import Time

        body = Time.model_validate_json(request.body)

        def forward(call: Call, inputs: list[Any]) -> object:
            self._set_mode(call.mode)
            seed_everything(call.seed)
            return self._module(*inputs)

        if body.restore and self._build is not None:
            building.restore_buffers(self._module, self._build, self._pools[0].flat)
        state = aliasing.ranges("state", building.named_state(self._module).items())
        with self._candidate_code(request):
            timed = self._timing.run(
                body,
                (self._pools[1].flat, self._pools[2].flat),
                forward,
                state,
                lambda: self._channel.send(Kind.ARMED, request.sequence),
            )
        return Kind.TIMED, timed

    def _time_on_cpu(self, request: Frame) -> cpu_timing.CpuTimed | cpu_timing.CpuReady:
        """Without `Redirect`, which would cost some microseconds an operator."""

        def ready(call: Call) -> None:
            self._set_mode(call.mode)
            seed_everything(call.seed)

        body = cpu_timing.CpuTime.model_validate_json(request.body)
        if body.call is None:
            return cpu_timing.lay_out()
        pools = (self._pools[1].flat, self._pools[2].flat)
        state = aliasing.ranges("state", building.named_state(self._module).items())
        self._put_switches_back()
        self._recorder.call = request.sequence
        return cpu_timing.run(body.call, pools, ready, self._module, state, self._recorder)

    def report(self, request: Frame) -> tuple[Kind, Claims]:
        """What was noted since the start."""
        self._put_switches_back()
        return Kind.DONE, Claims(
            notes=tuple(self._recorder.notes),
            launches=tuple(self._recorder.signatures.values()),
        )

    def _on_gpu(self) -> bool:
        return self._setup is not None and self._setup.device == "cuda"

    def _counts(self) -> bool:
        return self._setup is not None and self._setup.census

    def _set_mode(self, mode: str) -> None:
        if isinstance(self._module, torch.nn.Module):
            self._module.train(mode == "train")

    def _put_switches_back(self) -> None:
        """Whatever an earlier step has changed does not hold for the next."""
        for name, value in pinning.restore().items():
            self._recorder.note(f"{name} was {value}: put back before the next call", "switch")

    @contextlib.contextmanager
    def _candidate_code(self, request: Frame) -> Iterator[None]:
        """Around every step that runs the candidate's code."""
        self._put_switches_back()
        self._recorder.call = request.sequence
        assert self._setup is not None
        try:
            with redirect.Redirect() if self._setup.device == "cpu" else contextlib.nullcontext():
                yield
        finally:
            self._recorder.suppress(())
            self._recorder.watching = False


def main(channel_fd: int, evidence_fd: int) -> None:
    """Serve the judge over ``channel_fd``, send evidence into ``evidence_fd``."""
    workspace = Workspace()
    workspace.enter()
    sys.dont_write_bytecode = True
    warnings.simplefilter("ignore")
    channel = Channel(socket.socket(fileno=channel_fd))
    candidate = Candidate(Recorder(evidence_fd), workspace, channel)
    serving.serve(channel, candidate.handlers(), candidate.describe)
    workspace.remove()
    serving.leave()
