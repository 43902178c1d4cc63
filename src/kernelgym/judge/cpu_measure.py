"""Timing on a CPU, for backends whose kernels are meant to run there (`Backend.times_on_cpu`).

A round is a few calls on new inputs, each made by the reference here and by the candidate over
there, one right after the other, in an order that changes; the first pair only warms up. The
speedup is the median of the quotients of pairs: whatever slows a processor down for longer than two
calls, another virtual machine, a lower clock, is in both. For that the host keeps both processes on
one processor, where they take turns anyway. Both run the same code on memory of the same kind, and
the clock is processor time (`kernelgym.sandbox.cpu_timing`): a second thread gains nothing. Every
timed call is a checked call.

The candidate's clock and its kernels' times are claims. Two things bound them from outside: the
host's look at the clock of its processes around each call (where it cannot look, wall time), and
one at the reference while no candidate lives, so that a candidate that slows the reference down
gains nothing.

Not covered: kernels that several threads make faster, warm caches, displaced work.
"""

from __future__ import annotations

import os
import statistics
import time
from dataclasses import dataclass

import torch

from kernelgym.errors import TaskError
from kernelgym.judge import clock, inputs
from kernelgym.judge.answers import BadAnswer, Expected
from kernelgym.judge.correctness import SLACK_BYTES, Correctness
from kernelgym.judge.cpu_samples import Samples, conclude
from kernelgym.judge.dossier import Measured
from kernelgym.judge.inputs import Arguments, copy_into, draw_seed
from kernelgym.judge.peer import Peer, PeerGarbled, parse
from kernelgym.judge.prepare import PreparedTask
from kernelgym.judge.study import Study
from kernelgym.sandbox import cpu_timing
from kernelgym.sandbox.cpu_timing import CpuTime, CpuTimed
from kernelgym.sandbox.frames import Kind
from kernelgym.sandbox.messages import Call
from kernelgym.sandbox.pool import HostPool, TensorLayout, aligned, place, view
from kernelgym.sandbox.seeding import seed_everything
from kernelgym.schema import Mode, Trial
from kernelgym.trace.recorder import Recorder

STAGE = "time"
SLOTS = 8
"""Calls of a round; their inputs lie side by side."""
POOL_BYTES = 256 << 20
FEWEST_ROUNDS, MOST_ROUNDS = 4, 6
BUDGET_S = 2.5
"""No further round of a mode begins later."""
SHORT_US = 50.0
"""Where the reference takes less than that, most of it is the way in and out: `FEWEST_ROUNDS`."""
NARROW = 0.03
"""Half width of the interval, relative, at which it is narrow enough."""
FRESH_S = 20.0
"""The reference is timed alone again when that is longer ago."""
SECOND_LOOKS = 3
_KEPT = "cpu_alone"
_INDEX = 10_000
"""Trials made of timed calls are numbered from here."""


def calls_for(study: Study) -> int:
    """Calls of a round: those whose inputs and outputs fit the pools."""
    return max(2, min(SLOTS, POOL_BYTES // max(1, study.input_bytes, study.output_bytes)))


@dataclass
class _Drawn:
    """One call to come."""

    request: Call
    own: Arguments
    layouts: list[TensorLayout]


class CpuMeasurement:
    """Rounds of one candidate."""

    def __init__(self, modes: tuple[Mode, ...]) -> None:
        self.again = ""
        self._modes = modes
        self._samples = {mode: Samples() for mode in modes}
        self._turn = 0
        self._bench: _Bench

    def ready(self, task: PreparedTask) -> None:
        """Nothing."""

    def before(self, task: PreparedTask) -> None:
        """The reference alone, now and then."""
        taken_s, alone = task.kept.get(_KEPT, (-FRESH_S, {}))
        if time.monotonic() - taken_s > FRESH_S:
            alone = _alone(task, self._modes)
            task.kept[_KEPT] = (time.monotonic(), alone)
        for mode in self._modes:
            self._samples[mode].alone = alone[mode]

    def prepare(self, peer: Peer) -> None:
        """Nothing."""

    def needs_calibration(self) -> bool:
        """No."""
        return False

    def calibrate(self, correctness: Correctness) -> None:
        """Nothing."""

    def is_light(self, task: PreparedTask) -> bool:
        """There is no device to share."""
        return False

    def run(self, correctness: Correctness) -> None:
        """Rounds in each mode; a wrong timed answer becomes a failed trial."""
        self._bench = _Bench.make(correctness.task.study)
        try:
            for mode in self._modes:
                wrong = self._rounds(correctness, mode, self._samples[mode])
                if wrong is not None:
                    correctness.dossier.trials.append(wrong)
                    return
        finally:
            self._bench.close()

    def _rounds(self, correctness: Correctness, mode: Mode, samples: Samples) -> Trial | None:
        ends = time.monotonic() + BUDGET_S
        short = samples.alone < SHORT_US
        for count in range(1, MOST_ROUNDS + 1):
            wrong = self._round(correctness, mode, samples)
            if wrong is not None:
                return wrong
            late = time.monotonic() > ends
            narrow = clock.median_interval(samples.ratios).half_width < NARROW
            if count >= FEWEST_ROUNDS and (late or narrow or short):
                break
        return None

    def after(self, task: PreparedTask) -> Measured:
        """Conclusions. Where the reference seems to have been slowed down, it is looked at again
        without the candidate: a machine's own moods last for seconds."""
        for _ in range(SECOND_LOOKS):
            slowed = [mode for mode, samples in self._samples.items() if samples.is_slowed]
            if not slowed:
                break
            for mode, alone_us in _alone(task, tuple(slowed)).items():
                samples = self._samples[mode]
                samples.alone = max(samples.alone, alone_us)
        return conclude(self._samples)

    # --- one round ------------------------------------------------------------------------------

    def _round(self, given: Correctness, mode: Mode, samples: Samples) -> Trial | None:
        self._turn += 1
        drawn = _draw(given.task, mode, given.inputs.numel())
        poison = inputs.POISON[self._turn % len(inputs.POISON)]
        given.outputs[: len(drawn) * _room(given.task.study)].fill_(poison)
        given.announce(f"reference {STAGE}")
        oracles = [given.ask_oracle(mode, one.own) for one in drawn]
        pairs = [
            self._pair(given, one, samples, reference_first=bool((self._turn + number) % 2))
            for number, one in enumerate(drawn)
        ]
        for reference, candidate in pairs[1:]:
            samples.add(reference, candidate)
        given.peer.records()  # the launches of these calls are known from the trials
        study, flat = given.task.study, self._bench.answers.flat
        noise, shared = study.noise.get(mode, []), study.shared.get(mode, frozenset())
        expected = [
            Expected(ours.tree, [view(flat, x) for x in ours.tensors], noise, oracle, shared)
            for (ours, _), oracle in zip(
                ((one.output, other) for one, other in pairs), oracles, strict=True
            )
        ]
        return self._wrong(given, mode, expected, [other for _, other in pairs], poison)

    def _pair(
        self, given: Correctness, one: _Drawn, samples: Samples, *, reference_first: bool
    ) -> tuple[CpuTimed, CpuTimed]:
        """One call by both, the one right after the other."""
        if reference_first:
            reference = self._ask_reference(given, one, samples)
            return reference, _ask_candidate(given, one, samples)
        candidate = _ask_candidate(given, one, samples)
        return self._ask_reference(given, one, samples), candidate

    def _ask_reference(self, given: Correctness, one: _Drawn, samples: Samples) -> CpuTimed:
        given.announce(f"reference {STAGE}")
        self._bench.prepare(one)
        began = time.perf_counter_ns()
        working = time.process_time_ns()
        timed = self._bench.time(given.model, one)
        samples.ours_beside.append((time.process_time_ns() - working) / 1e3 - timed.call_us)
        spent_us = (time.perf_counter_ns() - began) / 1e3
        samples.ours.append(max(0.0, spent_us - timed.call_us))
        return timed

    def _wrong(
        self,
        given: Correctness,
        mode: Mode,
        expected: list[Expected],
        timed: list[CpuTimed],
        poison: int,
    ) -> Trial | None:
        """The first answer that is wrong, as a failed trial."""
        for target, answer in zip(expected, timed, strict=True):
            try:
                verdict = given.examiner.examine(target, answer.output, given.outputs, poison)
            except (BadAnswer, ValueError) as error:
                raise PeerGarbled(STAGE, str(error)) from error
            if verdict.status != "ok":
                return Trial(
                    index=_INDEX + self._turn,
                    mode=mode,
                    passed=False,
                    status=verdict.status,
                    detail=f"in a timed call: {verdict.detail}",
                )
        return None


def _room(study: Study) -> int:
    """Bytes of the output pool for one call."""
    return aligned(max(1, study.output_bytes))


def _alone(task: PreparedTask, modes: tuple[Mode, ...]) -> dict[Mode, float]:
    """What the reference takes while no candidate lives, in microseconds."""
    model, bench, alone = task.fresh_model(), _Bench.make(task.study), {}
    try:
        for mode in modes:
            times = []
            for _ in range(FEWEST_ROUNDS // 2):
                drawn = _draw(task, mode, bench.given.size)
                for one in drawn:
                    bench.prepare(one)
                    times.append(bench.time(model, one).call_us)
                del times[-len(drawn)]  # the first warms up
            alone[mode] = statistics.median(times)
    finally:
        bench.close()
    return alone


def _draw(task: PreparedTask, mode: Mode, room_bytes: int) -> list[_Drawn]:
    """Inputs that nobody has seen, to lie side by side in a pool of so many bytes."""
    drawn: list[_Drawn] = []
    start = 0
    for number in range(calls_for(task.study)):
        own = task.reference.make_inputs(draw_seed())
        layouts, end = place(own.tensors, start)
        start = aligned(end)
        request = Call(
            mode=mode,
            arguments=own.node,
            tensors=tuple(layouts),
            seed=draw_seed(),
            output_offset=number * _room(task.study),
        )
        drawn.append(_Drawn(request, own, layouts))
    if start > room_bytes:
        raise TaskError("reference_inputs_error", "the size of its inputs is not always the same")
    return drawn


@dataclass
class _Bench:
    """Where the reference is timed: pools like the candidate's, which no candidate sees."""

    given: HostPool
    answers: HostPool
    recorder: Recorder

    @classmethod
    def make(cls, study: Study) -> _Bench:
        """Pools for a round."""
        calls = calls_for(study)
        given = calls * aligned(study.input_bytes + SLACK_BYTES)
        return cls(HostPool(given), HostPool(calls * _room(study)), Recorder(-1))

    def prepare(self, drawn: _Drawn) -> None:
        """What comes before a call, as over there."""
        cpu_timing.lay_out()
        copy_into(self.given.flat, drawn.layouts, drawn.own.tensors)
        cpu_timing.sweep()

    def time(self, model: torch.nn.Module, drawn: _Drawn) -> CpuTimed:
        """The same call that the candidate gets, after `prepare`."""

        def ready(call: Call) -> None:
            model.train(call.mode == "train")
            seed_everything(call.seed)

        pools = self.given.flat, self.answers.flat
        body = CpuTime(call=drawn.request).model_dump_json()
        try:
            # By way of JSON, as over there: that is part of what is spent beside a call.
            call = CpuTime.model_validate_json(body).call
            assert call is not None
            timed = cpu_timing.run(call, pools, ready, model, (), self.recorder)
            return CpuTimed.model_validate_json(timed.model_dump_json())
        except Exception as error:
            text = f"while it was timed: {type(error).__name__}: {error}"
            raise TaskError("reference_forward_error", text[:1000]) from error

    def close(self) -> None:
        """Give the memory back."""
        self.given.close()
        self.answers.close()
        cpu_timing.keep_memory(False)


def _ask_candidate(given: Correctness, one: _Drawn, samples: Samples) -> CpuTimed:
    given.announce(f"candidate {STAGE}")
    given.peer.request(STAGE, Kind.TIME, CpuTime(call=None), limit_s=given.limit_s)
    body, before = CpuTime(call=one.request), given.peer.outside()
    copy_into(given.inputs, one.layouts, one.own.tensors)  # not earlier: nobody computes ahead
    cpu_timing.sweep()
    began = time.perf_counter_ns()
    frame = given.peer.request(STAGE, Kind.TIME, body, limit_s=given.limit_s)
    spent_us = (time.perf_counter_ns() - began) / 1e3
    timed = parse(CpuTimed, frame, STAGE)
    if not 0 < timed.call_us <= spent_us * (os.cpu_count() or 1):
        raise PeerGarbled(STAGE, f"a call of {timed.call_us} us within {spent_us:.0f} us")
    samples.hidden.append(spent_us - timed.call_us)
    samples.look_outside(before, given.peer.outside(), timed.call_us)
    return timed
