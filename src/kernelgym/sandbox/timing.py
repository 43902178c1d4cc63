"""The candidate's side of timed calls: queue a bracket, say so, wait, tell what was seen.

Everything the call needs from the CPU happens before the judge raises its flag; the values of the
inputs arrive while the stream is parked. Outputs are copied into the output pool on the device,
after the end mark and before the last one.

Shares its process with the candidate: what it reports is a claim. The judge has the marks.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import torch

from kernelgym.cuda import armed
from kernelgym.cuda.driver import Driver
from kernelgym.errors import KernelGymError
from kernelgym.sandbox import calling
from kernelgym.sandbox.aliasing import Range
from kernelgym.sandbox.clock_messages import Clock, Time, Timed, Traced
from kernelgym.sandbox.messages import Call, Output
from kernelgym.trace import traced
from kernelgym.trace.attribution import Tracer
from kernelgym.trace.cupti import Cupti
from kernelgym.trace.recorder import Recorder

Forward = Callable[[Call, list[Any]], object]
"""Seeds, sets the mode, calls the module."""


class Timing:
    """What timed calls need, made once, outside the gate."""

    def __init__(
        self,
        driver: Driver,
        request: Clock,
        page_fd: int,
        recorder: Recorder,
        make_cupti: Callable[[], Cupti] = Cupti,
    ) -> None:
        """``page_fd`` is taken over."""
        self._driver = driver
        self._bench = armed.Bench.make(driver, request.l2_bytes, page_fd)
        self.notes: list[str] = []
        self._tracer: Tracer | None = None
        if request.trace:
            try:
                self._tracer = Tracer(make_cupti(), recorder)
            except KernelGymError as error:
                self.notes.append(f"no device records: {error}"[:500])

    def run(
        self,
        request: Time,
        pools: tuple[torch.Tensor, torch.Tensor],
        forward: Forward,
        state: Sequence[Range],
        armed_now: Callable[[], None],
    ) -> Timed:
        """One bracket. ``pools``: inputs and outputs; ``state``: where the module's state lies;
        ``armed_now`` is called when everything is queued."""
        prepared = [calling.arguments(call, pools[0]) for call in request.calls]
        outputs: list[Output] = []

        def call(index: int) -> object:
            return forward(request.calls[index], prepared[index][0])

        tracer = self._tracer if request.trace else None

        def copy_out(results: list[object]) -> None:
            with tracer.ours() if tracer is not None else contextlib.nullcontext():
                describe(results)

        def describe(results: list[object]) -> None:
            for body, (_, tensors), value in zip(request.calls, prepared, results, strict=True):
                others = [*calling.input_ranges(tensors), *state]
                returned = calling.Returned(value)
                outputs.append(returned.answer(pools[1], body.output_offset, others))

        if tracer is not None:
            tracer.start()
        with torch.no_grad():
            queued = armed.queue(
                self._bench, request.value, len(request.calls), call, copy_out, flush=False
            )
        armed_now()
        event_us = queued.microseconds()
        self._driver.call("cuCtxSynchronize")
        return Timed(event_us=event_us, outputs=tuple(outputs), traced=_stop(tracer))


def _stop(tracer: Tracer | None) -> Traced | None:
    if tracer is None:
        return None
    records = tracer.stop()
    return traced.pack(records, lost=tracer.lost)
