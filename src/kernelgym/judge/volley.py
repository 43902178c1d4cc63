"""Timed calls of a candidate, the judge's side: one armed bracket, or several queued together.

For each bracket, in this order:

 1. private inputs, and what the reference makes of them (`kernelgym.judge.stock`)
 2. TIME; wait for ARMED, but no longer than the late limit; a canary
 3. queued in one go: poison over the outputs, inputs into the pool, cache flushed, FLAG raised
 4. spin on FLAG, START, END, COPIED
 5. DMA copy of windows of the outputs, at once; a canary
 6. TIMED; every output compared, and the windows with what lies there now

A slow canary voids the bracket: something else ran, the candidate's own late work included. Windows
that still hold poison, or change afterwards, are a wrong answer.

The brackets of a volley use the same places in the pools, one after the other: the candidate queues
the next while the judge is busy with this one. What it answered is put aside, in memory of ours,
and compared while the candidate queues the next volley, or in `CandidateClock.catch_up`.

Not covered: who slowed a canary down. The caller counts.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from kernelgym.cuda.page import PageTimeout, Slot
from kernelgym.cuda.snapshot import Window, draw_windows
from kernelgym.judge import inputs
from kernelgym.judge.answers import BadAnswer
from kernelgym.judge.brackets import ANSWER_LIMIT_S, LATE_S, MARK_LIMIT_S, STAGE, watch
from kernelgym.judge.clock import Bracket
from kernelgym.judge.correctness import Correctness
from kernelgym.judge.deck import QUIET_US, Deck
from kernelgym.judge.peer import Peer, PeerGarbled, parse
from kernelgym.judge.quick import Comparison
from kernelgym.judge.stock import Prepared, Stock
from kernelgym.sandbox.clock_messages import Clock, Time, Timed
from kernelgym.sandbox.evidence import Event
from kernelgym.sandbox.frames import Kind
from kernelgym.sandbox.messages import Call, Output
from kernelgym.sandbox.pool import TensorLayout, aligned, place_dense
from kernelgym.schema import Mode, Trial
from kernelgym.trace.attribution import Attributed
from kernelgym.trace.traced import unpack

_LATE_INDEX = 10_000
"""Trials made of timed calls are numbered from here."""
RESERVED_BYTES = 1 << 30
"""Most memory that a candidate's process sets aside for its calls; a 64th of what is free on a
smaller device."""
PUT_ASIDE_BYTES = 1 << 30
"""Outputs of one bracket that are copied, so that they can be compared later."""
OVERLAP_US = 0.5
"""Work of a call may seem to run for so long beside that of the next, and the copies of outputs."""
_STALE = "the outputs were not complete when the call said it was done"
_UNORDERED = (
    "work of a call ran for {:.1f} us beside that of the next one, or beside the copies of its "
    "outputs: on another stream, which has to wait for the current one, and the other way round"
)


@dataclass
class Shot:
    """One bracket of a candidate."""

    bracket: Bracket | None = None
    void: str = ""
    """Why it does not count."""
    records: list[Attributed] | None = None
    """With tracing."""
    lost: bool = False
    wrong: Trial | None = None
    """A timed call whose answer was wrong, once answers have been compared."""
    own_launches: int = 0
    """Launches of own kernels in the evidence of this bracket."""
    after_us: float = 0.0
    """The canary after it."""


@dataclass(frozen=True)
class _Drawn:
    """One call to come."""

    request: Call
    prepared: Prepared
    offset: int
    """Of its inputs in the pool."""
    outputs: list[TensorLayout]


@dataclass
class _Round:
    """One bracket, as it goes on."""

    mode: Mode
    value: int
    place: int
    """In its volley."""
    turn: int
    drawn: list[_Drawn]
    shot: Shot = field(default_factory=Shot)
    poison: int = 0
    late: bool = False
    marks: tuple[float, float, float] | None = None
    windows: list[Window] = field(default_factory=list)
    seen: list[bytes] = field(default_factory=list)
    """What the windows held at the moment of the answer."""
    answered: torch.Tensor | None = None
    """The output pool as it was after it."""
    outputs: tuple[Output, ...] = ()
    """What the harness says of the answers."""

    @property
    def layouts(self) -> list[TensorLayout]:
        """Where outputs will lie."""
        return [layout for one in self.drawn for layout in one.outputs]


def prepare(deck: Deck, peer: Peer) -> None:
    """Hand a page to a candidate's harness and let it make what timing needs.

    Outside the gate, and before any line of the candidate has run.
    """
    page = deck.new_page()
    reserve = min(RESERVED_BYTES, deck.free_bytes() // 64)
    body = Clock(l2_bytes=deck.facts.l2_bytes, reserve_bytes=reserve)
    peer.request(STAGE, Kind.CLOCK, body, fds=[page.fileno()], limit_s=ANSWER_LIMIT_S)


class CandidateClock:
    """Times one candidate through its channel."""

    def __init__(self, deck: Deck, correctness: Correctness) -> None:
        self._deck = deck
        self._given = correctness
        self._peer = correctness.peer
        if correctness.stock is None:
            memory, oracle = deck.facts.memory_bytes, correctness.oracle
            correctness.stock = Stock(correctness.task, correctness.model, memory, oracle)
        self._stock = correctness.stock
        self.turns = correctness.turns
        self._turn = 0
        self._armed = 0
        self._restored: set[Mode] = set()
        self._pending: list[_Round] = []
        self.wrong: Trial | None = None
        """The first timed call whose answer was wrong, as far as answers have been compared."""

    @property
    def output_bytes(self) -> int:
        """Of one call."""
        return self._given.task.study.output_bytes

    def shoot(self, mode: Mode, calls: int, *, trace: bool = False, park: bool = True) -> Shot:
        """One bracket; with ``park`` False the flag is up beforehand (warm-up)."""
        return self.volley(mode, calls, 1, trace=trace, park=park)[0]

    def warm_up(self, mode: Mode, calls: int, *, park: bool) -> Shot:
        """A bracket that counts for nothing: its inputs may have been seen in the one before."""
        return self.volley(mode, calls, 1, park=park, fresh=False)[0]

    def volley(
        self,
        mode: Mode,
        calls: int,
        count: int,
        *,
        trace: bool = False,
        park: bool = True,
        fresh: bool = True,
    ) -> list[Shot]:
        """``count`` brackets of ``calls`` calls each; tracing and not parking take one alone.

        What is drawn before and compared afterwards may be done beside others. What is queued is
        not: neighbours that are parked make the switch to a context, and so the lead, longer.
        """
        self.turns.step_aside(STAGE)
        if self.turns.shared or not park:
            self.catch_up()
        rounds = self._rounds(mode, calls, count, fresh=fresh)
        frame = None
        with self.turns.alone(STAGE):
            sequence = self._shoot(mode, rounds, trace=trace, park=park)
            if any(each.marks is None for each in rounds):  # what is queued still has to run
                frame = self._peer.answer(STAGE, Kind.TIME, sequence, limit_s=ANSWER_LIMIT_S)
        if frame is None:
            frame = self._peer.answer(STAGE, Kind.TIME, sequence, limit_s=ANSWER_LIMIT_S)
        self._account(rounds, parse(Timed, frame, STAGE))
        return [each.shot for each in rounds]

    def _shoot(self, mode: Mode, rounds: list[_Round], *, trace: bool, park: bool) -> int:
        """Have it queued, and see it through; the number of the request."""
        if not park:
            self._deliver(rounds[0])
            self._deck.settle()
            self._deck.raise_now(rounds[0].value)
        requests = tuple(tuple(one.request for one in each.drawn) for each in rounds)
        body = Time(
            value=rounds[0].value,
            brackets=requests,
            trace=trace,
            restore=self._is_to_restore(mode),
        )
        try:
            sequence = self._peer.send(STAGE, Kind.TIME, body)
            self.catch_up()  # what was answered before, while this is being queued
            for each in rounds:
                self._fire(each, sequence, park=park)
                if each.marks is None:  # the others wait behind it; the answer has a limit
                    break
        finally:
            self._deck.page.set(Slot.FLAG, rounds[-1].value)
        return sequence

    def catch_up(self) -> None:
        """Compare the answers that wait for it."""
        pending, self._pending = self._pending, []
        try:
            self._compare(pending)
        except (BadAnswer, ValueError) as error:
            raise PeerGarbled(STAGE, str(error)) from error
        for each in pending:
            self.wrong = self.wrong or each.shot.wrong

    def _is_to_restore(self, mode: Mode) -> bool:
        """Once a mode, where the stock's answers are those of a model as it was built."""
        if mode in self._restored:
            return False
        self._restored.add(mode)
        return self._given.task.study.stateless.get(mode, False)

    def _rounds(self, mode: Mode, calls: int, count: int, *, fresh: bool) -> list[_Round]:
        rounds = []
        self._armed = 0
        for place in range(count):
            self._turn += 1
            value = self._deck.next_value()
            drawn = self._draw(mode, calls, fresh=fresh)
            rounds.append(_Round(mode, value, place, self._turn, drawn))
        return rounds

    def _fire(self, each: _Round, sequence: int, *, park: bool) -> None:
        """See one bracket through, until its outputs have been looked at or put aside."""
        deck, pool = self._deck, self._given.outputs
        shot, regions = each.shot, [(x.offset, inputs.dense_bytes(x)) for x in each.layouts]
        each.windows = draw_windows(regions, deck.rng)
        each.late = not self._is_armed(sequence, each.place)
        if park:
            deck.settle()  # copies of the answers before are ours
            if each.place == 0:
                deck.canary_us()  # the first one has the switch of contexts in it
            if deck.canary_us() > QUIET_US:
                shot.void = "a slow canary before the call"
            self._deliver(each)
            deck.flush_and_raise(each.value, forget=each.place == 0)
        each.marks = self._watch(each.value)
        if each.marks is None:
            return
        each.seen = deck.snapshot.take(pool.data_ptr(), each.windows)
        shot.after_us = deck.canary_us()
        if shot.after_us > deck.after_limit_us and not shot.void:
            shot.void = "a slow canary after the call"
        if (end := max((sum(region) for region in regions), default=0)) <= PUT_ASIDE_BYTES:
            each.answered = pool[:end].clone()

    def _is_armed(self, sequence: int, place: int) -> bool:
        """Whether the bracket at this place of the volley is queued whole, or soon."""
        ends = time.monotonic() + LATE_S
        while self._armed <= place:
            if not self._peer.armed(STAGE, sequence, limit_s=ends - time.monotonic()):
                return False
            self._armed += 1
        return True

    def _watch(self, value: int) -> tuple[float, float, float] | None:
        try:
            page, ours = self._deck.page, self._deck.bench.page
            return watch(page, value, MARK_LIMIT_S, self._peer.alive, ours=ours)
        except PageTimeout:
            return None

    def _draw(self, mode: Mode, calls: int, *, fresh: bool) -> list[_Drawn]:
        """Inputs side by side; ``fresh`` ones the candidate has not seen."""
        drawn: list[_Drawn] = []
        place_in, place_out = 0, 0
        for _ in range(calls):
            prepared = self._stock.take(mode) if fresh else self._stock.take_again(mode)
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
            place_in, place_out = aligned(place_in + prepared.size), aligned(end)
        return drawn

    def _deliver(self, each: _Round) -> None:
        """Queue: poison where outputs will lie, inputs where they belong."""
        each.poison = inputs.poison(self._given.outputs, each.layouts, each.turn)
        for one in each.drawn:
            for offset, part in one.prepared.parts:
                start = one.offset + offset
                self._given.inputs[start : start + len(part)].copy_(part)

    def _account(self, rounds: Sequence[_Round], timed: Timed) -> None:
        """Claims about all brackets; their answers are compared later where they were put aside."""
        records = self._peer.records()
        own = sum(record.event is Event.LAUNCH and record.own for record in records)
        try:
            if not len(timed.outputs) == len(timed.events_us) == len(rounds):
                raise BadAnswer("brackets asked for and answered differ in number")  # noqa: TRY301
            if timed.traced is not None:
                rounds[0].shot.records = unpack(timed.traced)
                rounds[0].shot.lost = timed.traced.lost
                if timed.traced.overlap_us > OVERLAP_US and not timed.traced.lost:
                    detail = _UNORDERED.format(timed.traced.overlap_us)
                    rounds[0].shot.wrong = _wrong(rounds[0], "late_output", detail)
        except (BadAnswer, ValueError) as error:
            raise PeerGarbled(STAGE, str(error)) from error
        for each, event_us, outputs in zip(rounds, timed.events_us, timed.outputs, strict=True):
            each.outputs = outputs
            each.shot.own_launches = own // len(rounds)
            if each.marks is None:
                each.shot.void = "marks were never written"
            else:
                calls = len(each.drawn)
                each.shot.bracket = Bracket(calls, *each.marks, event_us, late=each.late)
        self._pending += rounds
        if any(each.answered is None for each in rounds):
            self.catch_up()

    def _compare(self, rounds: Sequence[_Round]) -> None:
        given = self._given
        comparison = Comparison(given.protocol, self._deck.agreement)
        answers: list[tuple[_Round, _Drawn, Output, torch.Tensor]] = []
        for each in rounds:
            if len(each.outputs) != len(each.drawn):
                raise BadAnswer("answers and calls differ in number")
            flat = given.outputs if each.answered is None else each.answered
            for one, output in zip(each.drawn, each.outputs, strict=True):
                comparison.add(one.prepared.expected, output, flat, one.prepared.bounds)
                answers.append((each, one, output, flat))
        for good, (each, one, output, flat) in zip(comparison.decide(), answers, strict=True):
            if good or each.shot.wrong is not None:
                continue
            verdict = given.examiner.examine(one.prepared.expected, output, flat, each.poison)
            if verdict.status != "ok":
                detail = f"in a timed call: {verdict.detail}"
                late = any(part == bytes([each.poison]) * len(part) for part in each.seen if part)
                status, detail = ("late_output", _STALE) if late else (verdict.status, detail)
                each.shot.wrong = _wrong(each, status, detail)
        for each in rounds:
            flat = given.outputs if each.answered is None else each.answered
            now = self._deck.snapshot.take(flat.data_ptr(), each.windows)
            if now != each.seen and each.marks is not None and each.shot.wrong is None:
                each.shot.wrong = _wrong(each, "late_output", _STALE)


def _wrong(each: _Round, status: str, detail: str) -> Trial:
    index = _LATE_INDEX + each.turn
    return Trial(index=index, mode=each.mode, passed=False, status=status, detail=detail)
