"""Marks of an armed bracket as the judge sees them, and whole brackets of the reference.

Those of a candidate: `kernelgym.judge.volley`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

import torch

from kernelgym.cuda import armed
from kernelgym.cuda.page import HostPage, Slot
from kernelgym.judge.clock import Bracket
from kernelgym.judge.deck import Deck
from kernelgym.sandbox import calling
from kernelgym.trace.attribution import Attributed

STAGE = "measure"
LATE_S = 0.02
"""A bracket that is not queued whole by then waits for the device: its flag is raised anyway."""
MARK_LIMIT_S = 5.0
ANSWER_LIMIT_S = 20.0


def watch(
    page: HostPage,
    value: int,
    limit_s: float,
    alive: Callable[[], bool],
    *,
    ours: HostPage | None = None,
) -> tuple[float, float, float]:
    """Lead, body and tail in us, from the flag on. The CPU raises it; with ``ours``, a page that
    nobody else can write, the device does and says so there.

    Raises `PageTimeout`.
    """
    deadline = time.perf_counter_ns() + int(limit_s * 1e9)
    if ours is None:
        raised = time.perf_counter_ns()
        page.set(Slot.FLAG, value)
    else:
        raised = ours.poll(Slot.RAISED, value, deadline, alive)
    start = page.poll(Slot.START, value, deadline, alive)
    end = page.poll(Slot.END, value, deadline, alive)
    copied = page.poll(Slot.COPIED, value, deadline, alive)
    return (start - raised) / 1e3, (end - start) / 1e3, (copied - end) / 1e3


def shoot_reference(
    deck: Deck,
    calls: int,
    call: Callable[[int], list[torch.Tensor]],
    scratch: torch.Tensor,
    *,
    trace: bool = False,
) -> tuple[Bracket, list[Attributed] | None]:
    """One bracket of the reference in this process; outputs are copied into ``scratch``.

    A call that waits for the device would wait for us: the watchdog raises the flag then. The marks
    were passed unseen, so such a bracket has the events' time (they are ours).
    """
    value, page = deck.next_value(), deck.bench.page

    def copy_out(results: list[list[torch.Tensor]]) -> None:
        if trace and deck.tracer is not None:
            with deck.tracer.ours():
                _copy_all(results, scratch)
        else:
            _copy_all(results, scratch)

    if trace and deck.tracer is not None:
        deck.tracer.start()
    deck.watchdog.arm(LATE_S, lambda: page.set(Slot.FLAG, value))
    try:
        try:
            queued = armed.queue(deck.bench, value, calls, call, copy_out)
        finally:
            late = deck.watchdog.disarm()
        lead, body, tail = watch(page, value, MARK_LIMIT_S, lambda: True)
    finally:
        page.set(Slot.FLAG, value)
    event_us = queued.microseconds()
    deck.settle()
    found = deck.tracer.stop() if trace and deck.tracer is not None else None
    if late:
        return Bracket(calls, 0.0, event_us, 0.0, event_us, late=True), found
    return Bracket(calls, lead, body, tail, event_us), found


def _copy_all(results: Sequence[list[torch.Tensor]], scratch: torch.Tensor) -> None:
    """The last call's first, as a candidate's harness does: it lies in the cache."""
    offset = 0
    for tensors in reversed(results):
        _, offset = calling.copy_out(scratch, tensors, offset)


def tail_us(brackets: Sequence[Bracket]) -> float:
    """What copying the outputs of a reference's brackets takes."""
    tails = sorted(bracket.tail_us for bracket in brackets if not bracket.late)
    return tails[len(tails) // 2] if tails else 0.0


def empty_us(brackets: Sequence[Bracket]) -> float:
    """Median body of brackets without a call."""
    bodies = sorted(bracket.body_us for bracket in brackets)
    return bodies[len(bodies) // 2] if bodies else 0.0


def lead_us(brackets: Sequence[Bracket]) -> float:
    """Median lead of brackets; infinite when there are none."""
    leads = sorted(bracket.lead_us for bracket in brackets)
    return leads[len(leads) // 2] if leads else math.inf
