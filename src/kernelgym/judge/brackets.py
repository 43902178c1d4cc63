"""The judge's side of one armed bracket: of the reference, and of a candidate.

Candidate, in this order:

 1. private inputs, and what the reference makes of them (`kernelgym.judge.stock`)
 2. TIME; wait for ARMED, but no longer than the late limit; a canary
 3. queued in one go: poison over the outputs, inputs into the pool, cache flushed, FLAG raised
 4. spin on FLAG, START, END, COPIED
 5. DMA copy of windows of the outputs, at once; a canary
 6. TIMED; every output compared, and the windows with what the pool holds now

A slow canary voids the bracket: something else ran, the candidate's own late work included. Windows
that still hold poison, or something else than what is there in the end, are a wrong answer.

Not covered: who slowed a canary down. The caller counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from kernelgym.cuda import armed
from kernelgym.cuda.page import HostPage, PageTimeout, Slot
from kernelgym.cuda.snapshot import draw_windows
from kernelgym.judge import inputs
from kernelgym.judge.answers import BadAnswer
from kernelgym.judge.clock import Bracket
from kernelgym.judge.correctness import Correctness
from kernelgym.judge.deck import QUIET_US, Deck
from kernelgym.judge.peer import Peer, PeerGarbled, parse
from kernelgym.judge.quick import agrees
from kernelgym.judge.stock import Prepared, Stock
from kernelgym.sandbox import calling
from kernelgym.sandbox.clock_messages import Clock, Time, Timed
from kernelgym.sandbox.evidence import Event
from kernelgym.sandbox.frames import Kind
from kernelgym.sandbox.messages import Call
from kernelgym.sandbox.pool import TensorLayout, aligned, place_dense
from kernelgym.schema import Mode, Trial
from kernelgym.trace.attribution import Attributed
from kernelgym.trace.traced import unpack

STAGE = "measure"
LATE_S = 0.02
"""A bracket that is not queued whole by then waits for the device: its flag is raised anyway."""
MARK_LIMIT_S = 5.0
ANSWER_LIMIT_S = 20.0
_LATE_INDEX = 10_000
"""Trials made of timed calls are numbered from here."""


def watch(
    page: HostPage, value: int, limit_s: float, alive: Callable[[], bool], *, raise_it: bool = True
) -> tuple[float, float, float]:
    """Lead, body and tail in us, from the flag on: the CPU raises it, or else the device does.

    Raises `PageTimeout`.
    """
    deadline = time.perf_counter_ns() + int(limit_s * 1e9)
    if raise_it:
        raised = time.perf_counter_ns()
        page.set(Slot.FLAG, value)
    else:
        raised = page.poll(Slot.FLAG, value, deadline, alive)
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
    offset = 0
    for tensors in results:
        _, offset = calling.copy_out(scratch, tensors, offset)


@dataclass
class Shot:
    """One bracket of a candidate."""

    bracket: Bracket | None = None
    void: str = ""
    """Why it does not count."""
    wrong: Trial | None = None
    """A timed call whose answer was wrong."""
    records: list[Attributed] | None = None
    """With tracing."""
    lost: bool = False
    own_launches: int = 0
    """Launches of own kernels in the evidence of this bracket."""
    after_us: float = 0.0
    """The canary after it."""


@dataclass
class _Drawn:
    """One call to come."""

    request: Call
    prepared: Prepared
    offset: int
    """Of its inputs in the pool."""
    outputs: list[TensorLayout]


def prepare(deck: Deck, peer: Peer) -> None:
    """Hand a page to a candidate's harness and let it make what timing needs.

    Outside the gate, and before any line of the candidate has run.
    """
    page = deck.new_page()
    body = Clock(l2_bytes=deck.facts.l2_bytes)
    peer.request(STAGE, Kind.CLOCK, body, fds=[page.fileno()], limit_s=ANSWER_LIMIT_S)


class CandidateClock:
    """Times one candidate through its channel."""

    def __init__(self, deck: Deck, correctness: Correctness) -> None:
        self._deck = deck
        self._given = correctness
        self._peer = correctness.peer
        self._stock = Stock(correctness.task, correctness.model)
        self._turn = 0

    def shoot(self, mode: Mode, calls: int, *, trace: bool = False, park: bool = True) -> Shot:
        """One bracket; with ``park`` False the flag is up beforehand (warm-up)."""
        deck, value = self._deck, self._deck.next_value()
        drawn = self._draw(mode, calls)
        self._turn += 1
        layouts = [layout for one in drawn for layout in one.outputs]
        if not park:
            poison = self._deliver(drawn, layouts)
            deck.settle()
            deck.page.set(Slot.FLAG, value)
        body = Time(value=value, calls=tuple(one.request for one in drawn), trace=trace)
        shot = Shot()
        windows = draw_windows([(x.offset, inputs.dense_bytes(x)) for x in layouts], deck.rng)
        try:
            sequence = self._peer.send(STAGE, Kind.TIME, body)
            late = not self._peer.armed(STAGE, sequence, limit_s=LATE_S)
            if park:
                deck.canary_us()  # the first one has the switch of contexts in it
                if deck.canary_us() > QUIET_US:
                    shot.void = "a slow canary before the call"
                poison = self._deliver(drawn, layouts)
                deck.flush_and_raise(value)
            marks = self._watch(value)
            seen = deck.snapshot.take(self._given.outputs.data_ptr(), windows)
            shot.after_us = deck.canary_us()
        finally:
            deck.page.set(Slot.FLAG, value)
        frame = self._peer.answer(STAGE, Kind.TIME, sequence, limit_s=ANSWER_LIMIT_S)
        timed = parse(Timed, frame, STAGE)
        if shot.after_us > deck.after_limit_us and not shot.void:
            shot.void = "a slow canary after the call"
        if marks is None:
            shot.void = "marks were never written"
        else:
            shot.bracket = Bracket(calls, *marks, event_us=timed.event_us, late=late)
        self._look(shot, timed, mode, drawn, poison)
        later = deck.snapshot.take(self._given.outputs.data_ptr(), windows)
        if later != seen and shot.wrong is None and marks is not None:
            shot.wrong = _wrong(mode, self._turn, "late_output", _STALE)
        return shot

    def _watch(self, value: int) -> tuple[float, float, float] | None:
        try:
            page = self._deck.page
            return watch(page, value, MARK_LIMIT_S, self._peer.alive, raise_it=False)
        except PageTimeout:
            return None

    def _draw(self, mode: Mode, calls: int) -> list[_Drawn]:
        """Inputs that the candidate has not seen, side by side."""
        drawn: list[_Drawn] = []
        place_in, place_out = 0, 0
        for _ in range(calls):
            prepared = self._stock.take(mode)
            outputs, end = place_dense(prepared.expected.tensors, place_out)
            request = Call(
                mode=mode,
                arguments=prepared.node,
                tensors=tuple(
                    layout.model_copy(update={"offset": layout.offset + place_in})
                    for layout in prepared.layouts
                ),
                seed=prepared.call_seed,
                output_offset=place_out,
            )
            drawn.append(_Drawn(request, prepared, place_in, outputs))
            place_in, place_out = aligned(place_in + len(prepared.private)), aligned(end)
        return drawn

    def _deliver(self, drawn: Sequence[_Drawn], outputs: Sequence[TensorLayout]) -> int:
        """Queue: poison where outputs will lie, inputs where they belong; the poison used."""
        poison = inputs.poison(self._given.outputs, outputs, self._turn)
        for one in drawn:
            private = one.prepared.private
            self._given.inputs[one.offset : one.offset + len(private)].copy_(private)
        return poison

    def _look(
        self, shot: Shot, timed: Timed, mode: Mode, drawn: Sequence[_Drawn], poison: int
    ) -> None:
        """Evidence and answers of the bracket."""
        records = self._peer.records()
        shot.own_launches = sum(r.event is Event.LAUNCH and r.own for r in records)
        try:
            if len(timed.outputs) != len(drawn):
                raise BadAnswer("answers and calls differ in number")  # noqa: TRY301
            if timed.traced is not None:
                shot.records, shot.lost = unpack(timed.traced), timed.traced.lost
            for one, output in zip(drawn, timed.outputs, strict=True):
                flat, examiner = self._given.outputs, self._given.examiner
                expected = one.prepared.expected
                if agrees(self._given.protocol, expected, output, flat, one.prepared.bounds):
                    continue
                verdict = examiner.examine(expected, output, flat, poison)
                if verdict.status != "ok" and shot.wrong is None:
                    detail = f"in a timed call: {verdict.detail}"
                    shot.wrong = _wrong(mode, self._turn, verdict.status, detail)
        except (BadAnswer, ValueError) as error:
            raise PeerGarbled(STAGE, str(error)) from error


_STALE = "the outputs were not complete when the call said it was done"


def _wrong(mode: Mode, turn: int, status: str, detail: str) -> Trial:
    return Trial(index=_LATE_INDEX + turn, mode=mode, passed=False, status=status, detail=detail)


def tail_us(brackets: Sequence[Bracket]) -> float:
    """What copying the outputs of a reference's brackets takes."""
    tails = sorted(bracket.tail_us for bracket in brackets if not bracket.late)
    return tails[len(tails) // 2] if tails else 0.0


def empty_us(brackets: Sequence[Bracket]) -> float:
    """Median body of brackets without a call."""
    bodies = sorted(bracket.body_us for bracket in brackets)
    return bodies[len(bodies) // 2] if bodies else 0.0
