"""Blocks of brackets: the reference before and after, a candidate in between.

A block is warmed up until it is steady, then sampled until its interval is narrow or its budget is
spent. All blocks of a sandwich use the same number of calls a bracket (K), drawn once with the
first block, because the calls after the first find the cache less cold.
"""

from __future__ import annotations

import math
import statistics
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import ClassVar

import torch

from kernelgym.judge import baseline, clock
from kernelgym.judge.brackets import STAGE, empty_us, lead_us, shoot_reference, tail_us
from kernelgym.judge.clock import Bracket, Reading, Sampler, Sandwich
from kernelgym.judge.deck import Deck, Trusted
from kernelgym.judge.inputs import draw_seed
from kernelgym.judge.prepare import PreparedTask
from kernelgym.judge.reference import Returned
from kernelgym.judge.volley import CandidateClock, Shot
from kernelgym.sandbox.clock_messages import MAX_BRACKETS
from kernelgym.schema import Mode, Trial
from kernelgym.trace import profile
from kernelgym.trace.profile import CallProfile

BUDGET_S = 2.0
"""Most time that the samples of one block may take."""
EMPTY_SHOTS = 6
EMPTY_FRESH_S = 20.0
"""The reference's empty bracket is measured again after that long."""
MAX_VOID = 8
RING_BYTES = 1 << 30
KEPT_BYTES = 256 << 20
"""What a timer of a reference may hold between blocks."""
_TIMERS = "reference_timers"
FASTER = 2
"""K is chosen for a candidate that is this many times faster than the reference."""
VOLLEY_LAUNCHES = 400
"""Device work that may be queued behind a flag: the hardware's queue has 1,024 entries."""
VOLLEY_BYTES = 1 << 30
"""Outputs of one volley that are put aside until they are compared."""


@dataclass
class Block:
    """Brackets of one side in one mode."""

    calls: int
    """K."""
    empty_us: float = 0.0
    tail_us: float = 0.0
    """What copying the outputs takes: only of the reference."""
    lead_us: float = math.inf
    """What lies between flag and start mark: only of a candidate, whose marks it can forge."""
    warm: list[float] = field(default_factory=list)
    """Times of single calls before it was steady, in us."""
    brackets: list[Bracket] = field(default_factory=list)
    profile: CallProfile | None = None
    no_profile: str = ""
    taken_s: float = 0.0
    """When it was taken, on the monotonic clock."""
    ours: ClassVar[bool] = True
    """Whether nobody but us can have written its marks."""

    def read(self, tail: float, *, marks: bool = False) -> Reading:
        """Times of one call; ``marks`` forbids the events."""
        found = clock.read(self.brackets, self.empty_us, tail, self.lead_us, ours=self.ours)
        if marks and found.clock == "events":
            samples = [
                b.charged_us(self.empty_us, tail, self.lead_us, found.excess) for b in self.brackets
            ]
            return Reading("marks", tuple(samples), found.excess)
        return found

    @property
    def late(self) -> bool:
        """Whether calls wait for the device inside."""
        return any(bracket.late for bracket in self.brackets)


@dataclass
class CandidateBlock(Block):
    """Brackets of a candidate."""

    ours: ClassVar[bool] = False
    voids: Counter[str] = field(default_factory=Counter)
    wrong: Trial | None = None
    contradiction: str | None = None
    traced_us: float = 0.0
    """What the traced call took."""
    own_launches: int = 0
    """Launches of own kernels in the traced bracket, by the evidence."""


class ReferenceTimer:
    """Times the reference of a task in one mode."""

    def __init__(self, deck: Deck, task: PreparedTask, mode: Mode) -> None:
        self._deck, self._task, self._mode = deck, task, mode
        self._model = baseline.timed_model(task, mode)
        make = task.reference.make_inputs
        self._ring = [make(draw_seed()) for _ in range(_ring_size(task))]
        self._turn = 0

    def block(self, slots: int, known: Block | None = None, other: Block | None = None) -> Block:
        """One block.

        K, at most ``slots``, and the profile are those of a block that is ``known``; without one
        they are drawn and taken. ``other`` is a block of the other mode, taken just before.
        """
        self._scratch(1)
        self._deck.bench.flush.forget_persisting()
        empty = self._empty()
        sampler = Sampler(expected_us=warm_us(other), other_us=typical_us(other))
        while not sampler.steady():
            sampler.warm.append(self._shoot(1).event_us)
        calls = self._draw_calls(sampler, slots) if known is None else known.calls
        self._scratch(calls)
        block = Block(calls, empty, warm=sampler.warm, taken_s=time.monotonic())
        self._shoot(calls)
        ends = time.monotonic() + BUDGET_S
        while not sampler.enough() and (time.monotonic() < ends or len(sampler.samples) < 3):
            bracket = self._shoot(calls)
            block.brackets.append(bracket)
            sampler.samples.append(bracket.best_us(block.empty_us, bracket.tail_us))
        block.tail_us = tail_us(block.brackets)
        if known is None:
            self._profile(block)
        else:
            block.profile, block.no_profile = known.profile, known.no_profile
        del self._room  # the timer may be kept
        return block

    def extend(self, block: Block) -> None:
        """As many brackets again."""
        self._scratch(block.calls)
        block.brackets += [self._shoot(block.calls) for _ in block.brackets]
        block.tail_us = tail_us(block.brackets)
        del self._room

    def _draw_calls(self, sampler: Sampler, slots: int) -> int:
        call_us = statistics.median(sampler.warm) / FASTER
        return clock.calls_for(call_us, slots, self._deck.rng.randrange(2))

    def _empty(self) -> float:
        """An empty bracket: a fact of the device and this process, so measured now and then."""
        known, now = self._deck.empty, time.monotonic()
        if known is None or now - known[1] > EMPTY_FRESH_S:
            found = empty_us([self._shoot(0) for _ in range(EMPTY_SHOTS)])
            known = self._deck.empty = (found, now)
        return known[0]

    def _scratch(self, calls: int) -> None:
        size = max(1, calls * (self._task.study.output_bytes + 4096))
        self._room = torch.empty(size, dtype=torch.uint8, device=self._task.device)

    def _call(self, _index: int) -> Returned:
        self._turn += 1
        given = self._ring[self._turn % len(self._ring)]
        return self._task.reference.call(self._model, self._mode, given, 0)

    def _shoot(self, calls: int) -> Bracket:
        bracket, _ = shoot_reference(
            self._deck, calls, lambda index: self._call(index).tensors, self._room
        )
        return bracket

    def _profile(self, block: Block) -> None:
        if self._deck.tracer is None:
            block.no_profile = self._deck.no_tracer
            return
        _, records = shoot_reference(
            self._deck, 1, lambda index: self._call(index).tensors, self._room, trace=True
        )
        lost = self._deck.tracer.lost
        block.profile = profile.profile(records or [], 1, self._mode, lost=lost)
        if block.profile is None:
            block.no_profile = "the profiler recorded nothing of the reference"


def reference_timer(deck: Deck, task: PreparedTask, mode: Mode) -> ReferenceTimer:
    """The timer of a mode; the same one for all blocks where it holds little, and where neither its
    inputs nor its state change."""
    kept: dict[Mode, ReferenceTimer] = task.kept.setdefault(_TIMERS, {})
    if mode in kept:
        return kept[mode]
    timer, study = ReferenceTimer(deck, task, mode), task.study
    holds = _ring_size(task) * study.input_bytes + study.state_bytes
    changes = any(study.changed.get(mode, (True,))) or not study.stateless.get(mode, False)
    if holds <= KEPT_BYTES and not changes:
        kept[mode] = timer
    return timer


def _ring_size(task: PreparedTask) -> int:
    return min(8, max(2, RING_BYTES // max(1, task.study.input_bytes)))


def drift(before: Block, after: Block) -> float:
    """How far two blocks of the reference lie apart, see `Sandwich.drift`."""
    first, second = by_one_clock((before, before.tail_us), (after, after.tail_us))
    return Sandwich(first.samples_us, (), second.samples_us).drift


def by_one_clock(*sides: tuple[Block, float]) -> list[Reading]:
    """Blocks, each with the tail that is honest for it: all by events, or all by marks."""
    found = [block.read(tail) for block, tail in sides]
    if len({reading.clock for reading in found}) > 1:
        return [block.read(tail, marks=True) for block, tail in sides]
    return found


def time_candidate(
    deck: Deck, timer: CandidateClock, mode: Mode, calls: int, other: CandidateBlock | None = None
) -> CandidateBlock:
    """One block of a candidate, profile included; ends at the first wrong answer.

    ``other``: the same candidate's block in the other mode, taken just before.
    """
    empty, lead = _overhead(deck)
    block = CandidateBlock(calls, empty, lead_us=lead, taken_s=time.monotonic())
    sampler = Sampler(expected_us=warm_us(other), other_us=typical_us(other))
    together = min(clock.WARM_WINDOW, max(1, calls))  # every bracket costs a judge some time
    with timer.turns.alone(STAGE):
        deck.wait_until_quiet()
        while not sampler.steady() and timer.wrong is None:
            shot = timer.warm_up(mode, together, park=False)
            call_us = shot.bracket.event_us / together if shot.bracket else 0.0
            sampler.warm += [call_us] * together
        block.warm = sampler.warm
        timer.warm_up(mode, calls, park=True)  # torch's allocator may still grow here
        traced = _trace(timer, mode, block)
    if timer.wrong is None:
        _sample(deck, timer, mode, block, sampler, _volley(timer, traced))
    timer.catch_up()
    block.wrong = timer.wrong
    block.contradiction = _contradiction(block)
    return block


def calibrate(deck: Deck, timer: CandidateClock, mode: Mode) -> None:
    """Empty brackets of a harness that is still ours: those of record for a while."""
    deck.wait_until_quiet()
    shots = [timer.shoot(mode, 0) for _ in range(EMPTY_SHOTS)]
    empties = [shot.bracket for shot in shots if shot.bracket]
    if empties:
        after = statistics.median(shot.after_us for shot in shots)
        deck.trust(Trusted(empty_us(empties), lead_us(empties), after, time.monotonic()))


def _overhead(deck: Deck) -> tuple[float, float]:
    """Body and lead of empty brackets; a candidate's process is never asked for its own.

    Where no honest harness could be looked at nothing is taken off, which favours nobody.
    """
    trusted = deck.trusted
    return (0.0, math.inf) if trusted is None else (trusted.empty_us, trusted.lead_us)


def warm_us(block: Block | None) -> float:
    """What a single call took at the end of a block's warm-up; 0 where there is none."""
    last = [] if block is None else block.warm[-clock.WARM_WINDOW :]
    return statistics.median(last) if last else 0.0


def typical_us(block: Block | None) -> float:
    """Median of the samples of a block, as its sampler saw them; 0 where there is none."""
    brackets = [] if block is None else block.brackets
    if block is None or not brackets:
        return 0.0
    empty, lead = block.empty_us, block.lead_us
    return statistics.median(b.best_us(empty, b.tail_us, lead) for b in brackets)


def _trace(timer: CandidateClock, mode: Mode, block: CandidateBlock) -> Shot:
    """A bracket with the profiler on; a second one where that was void."""
    for _ in range(2):
        traced = timer.shoot(mode, block.calls, trace=True)
        _take(block, traced)
        _read_profile(block, traced, mode)
        if not traced.void and (block.profile is not None or traced.records is None):
            break
    return traced


def _sample(
    deck: Deck,
    timer: CandidateClock,
    mode: Mode,
    block: CandidateBlock,
    sampler: Sampler,
    count: int,
) -> None:
    """``count``: brackets that are queued together."""
    started, waited_s = time.monotonic(), timer.turns.waited_s
    while timer.wrong is None and not sampler.enough() and block.voids.total() <= MAX_VOID:
        spent = time.monotonic() - started - (timer.turns.waited_s - waited_s)
        if spent > BUDGET_S and len(sampler.samples) >= 3:
            return
        left = sampler.until_next_look()
        shots = timer.volley(mode, block.calls, min(count, left))
        if any(shot.void or shot.bracket is None for shot in shots):
            with timer.turns.alone(STAGE):
                deck.wait_until_quiet()
        for shot in shots:
            _take(block, shot)
            if shot.void or shot.bracket is None:
                continue
            block.brackets.append(shot.bracket)
            tail = shot.bracket.tail_us
            sampler.samples.append(shot.bracket.best_us(block.empty_us, tail, block.lead_us))
            if shot.bracket.late:
                count = 1


def _volley(timer: CandidateClock, traced: Shot) -> int:
    """Brackets that are queued together: as many as the hardware's queue is sure to take."""
    if traced.bracket is None or traced.bracket.late or not traced.records or traced.lost:
        return 1
    by_launches = VOLLEY_LAUNCHES // (len(traced.records) + 12)
    by_bytes = VOLLEY_BYTES // max(1, timer.output_bytes * traced.bracket.calls)
    return max(1, min(MAX_BRACKETS // 2, by_launches, by_bytes))


def _take(block: CandidateBlock, shot: Shot) -> None:
    """Count what does not count."""
    if shot.void:
        block.voids[shot.void] += 1


def _read_profile(block: CandidateBlock, shot: Shot, mode: Mode) -> None:
    if shot.records is None or shot.bracket is None:
        block.no_profile = "the candidate's process has no profiler"
        return
    block.profile = profile.profile(shot.records, block.calls, mode, lost=shot.lost)
    if block.profile is None:
        block.no_profile = "the profiler recorded nothing, not even the canary kernel"
        return
    block.traced_us = shot.bracket.outside_us(block.empty_us, shot.bracket.tail_us, block.lead_us)
    block.own_launches = shot.own_launches


def _contradiction(block: CandidateBlock) -> str | None:
    """What the profile says against the clock of the traced call, and of the median one.

    A single call may be slow for no reason; work that is hidden from the profiler is in both.
    """
    if block.profile is None:
        return None
    calls = [block.traced_us]
    if block.brackets:  # by the marks: events are claims, too
        empty, lead = block.empty_us, block.lead_us
        marks = [b.outside_us(empty, b.tail_us, lead) for b in block.brackets]
        calls.append(statistics.median(marks))
    found = [profile.contradiction(block.profile, us, block.own_launches) for us in calls]
    return found[0] if all(found) else None
