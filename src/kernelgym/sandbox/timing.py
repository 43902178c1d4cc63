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
from kernelgym.sandbox.clock_messages import MAX_BRACKETS, Clock, Time, Timed, Traced
from kernelgym.sandbox.messages import Call, Output
from kernelgym.sandbox.pool import Views
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
        self._bench = armed.Bench.make(driver, request.l2_bytes, page_fd, brackets=MAX_BRACKETS)
        self.notes: list[str] = []
        self._views: tuple[Views, Views] | None = None
        self._tracer: Tracer | None = None
        if request.trace:
            try:
                self._tracer = Tracer(make_cupti(), recorder)
                self._tracer.start()  # the first time takes ten times as long
                self._tracer.stop()
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
        """All brackets of a request. ``pools``: inputs and outputs; ``state``: where the module's
        state lies; ``armed_now`` is called whenever one is queued."""
        tracer = self._tracer if request.trace else None
        if tracer is not None:
            tracer.start()
        if self._views is None or self._views[0].flat is not pools[0]:
            self._views = Views(pools[0]), Views(pools[1])
        views, queued, brackets = self._views, [], []
        with torch.no_grad():
            for index, calls in enumerate(request.brackets):
                bracket = _Bracket(calls, views, forward, tracer)
                brackets.append(bracket)
                queued.append(
                    armed.queue(
                        self._bench,
                        request.value + index,
                        len(calls),
                        bracket.call,
                        bracket.copy_out,
                        flush=False,
                        pair=index,
                        begins=contextlib.nullcontext if tracer is None else tracer.begins,
                    )
                )
                queued[-1].results.clear()  # or the next bracket's answers would need new memory
                armed_now()
        outputs = tuple(bracket.outputs(state) for bracket in brackets)  # while they run
        events_us = tuple(one.microseconds() for one in queued)
        self._driver.call("cuCtxSynchronize")
        return Timed(events_us=events_us, outputs=outputs, traced=_stop(tracer))


class _Bracket:
    """The calls of one bracket, and what they returned."""

    def __init__(
        self,
        calls: Sequence[Call],
        pools: tuple[Views, Views],
        forward: Forward,
        tracer: Tracer | None,
    ) -> None:
        self._calls, self._pools, self._forward = calls, pools, forward
        self._tracer = tracer
        self._prepared = [calling.arguments(call, pools[0]) for call in calls]
        self._copied: list[calling.Copied] = []

    def call(self, index: int) -> object:
        """One of the calls."""
        return self._forward(self._calls[index], self._prepared[index][0])

    def copy_out(self, results: list[object]) -> None:
        """Queue the copies into the output pool.

        The last call's first: work of its that still runs somewhere else would be done by the time
        that the others' outputs are copied, and is not done now.
        """
        answered = []
        with self._tracer.ours() if self._tracer is not None else contextlib.nullcontext():
            for call, value in zip(reversed(self._calls), reversed(results), strict=True):
                returned = calling.Returned(value)
                answered.append(returned.copied(self._pools[1], call.output_offset))
        self._copied = answered[::-1]

    def outputs(self, state: Sequence[Range]) -> tuple[Output, ...]:
        """What was copied, in words. ``state``: where the module's state lies."""
        return tuple(
            copied.described([*calling.input_ranges(tensors), *state])
            for copied, (_, tensors) in zip(self._copied, self._prepared, strict=True)
        )


def _stop(tracer: Tracer | None) -> Traced | None:
    if tracer is None:
        return None
    records = tracer.stop()
    return traced.pack(records, lost=tracer.lost, overlap_us=tracer.overlap_us)
