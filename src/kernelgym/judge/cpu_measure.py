"""Timing on a CPU, for backends whose kernels are meant to run there (`Backend.times_on_cpu`).

A round is a few calls of the reference here and the same calls of the candidate over there, on new
inputs, in an order that changes from round to round; the first call of each only warms up, and the
round's time of a side is its fastest other call, which is what a busy machine disturbs least. The
speedup is that of the lower quartiles over rounds; what slows the machine down for longer than a
round slows both sides. Both sides run the same code on memory of the same kind, and the clock is
processor time (`kernelgym.sandbox.cpu_timing`): a second thread gains nothing. Every timed call is
a checked call.

The candidate's clock and its kernels' times are claims. Two things bound them from outside: the
judge's clock around each request, and a look at the reference while no candidate lives, so that a
candidate that slows the reference down gains nothing.

Not covered: kernels that several threads make faster, cold caches, displaced work.
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
SLOTS = 4
"""Calls of a round; their inputs lie side by side."""
POOL_BYTES = 256 << 20
FEWEST_ROUNDS, MOST_ROUNDS = 8, 24
BUDGET_S = 1.5
"""No further round of a mode begins later."""
SHORT_US = 50.0
"""Where the reference takes less than that, most of it is the way in and out: `FEWEST_ROUNDS`."""
NARROW = 0.02
"""Half width of the interval, relative, at which it is narrow enough."""
FRESH_S = 20.0
"""The reference is timed alone again when that is longer ago."""
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
            model, bench = task.fresh_model(), _Bench.make(task.study)
            try:
                alone = {mode: self._alone(task, mode, model, bench) for mode in self._modes}
            finally:
                bench.close()
            task.kept[_KEPT] = (time.monotonic(), alone)
        for mode in self._modes:
            self._samples[mode].alone = alone[mode]

    def _alone(
        self, task: PreparedTask, mode: Mode, model: torch.nn.Module, bench: _Bench
    ) -> float:
        """In microseconds."""
        rounds = [
            bench.time(model, _draw(task, mode, bench.given.size))
            for _ in range(FEWEST_ROUNDS // 2)
        ]
        return statistics.median(min(timed.calls_us[1:]) for timed in rounds)

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
        """Conclusions."""
        return conclude(self._samples)

    # --- one round ------------------------------------------------------------------------------

    def _round(self, given: Correctness, mode: Mode, samples: Samples) -> Trial | None:
        self._turn += 1
        drawn = _draw(given.task, mode, given.inputs.numel())
        poison = inputs.POISON[self._turn % len(inputs.POISON)]
        for one in drawn:
            copy_into(given.inputs, one.layouts, one.own.tensors)
        given.outputs[: len(drawn) * _room(given.task.study)].fill_(poison)
        if self._turn % 2:
            expected = self._ask_reference(given, mode, drawn, samples)
            timed = _ask_candidate(given, drawn, samples)
        else:
            timed = _ask_candidate(given, drawn, samples)
            expected = self._ask_reference(given, mode, drawn, samples)
        given.peer.records()  # the launches of these calls are known from the trials
        return self._wrong(given, mode, expected, timed, poison)

    def _ask_reference(
        self, given: Correctness, mode: Mode, drawn: list[_Drawn], samples: Samples
    ) -> list[Expected]:
        """The reference's answers; keeps the time of its fastest call but the first."""
        given.announce(f"reference {STAGE}")
        oracles = [given.ask_oracle(mode, one.own) for one in drawn]
        began = time.perf_counter_ns()
        timed = self._bench.time(given.model, drawn)
        spent_us = (time.perf_counter_ns() - began) / 1e3
        samples.ours.append(max(0.0, spent_us - sum(timed.calls_us)) / len(drawn))
        samples.reference.append(min(timed.calls_us[1:]))
        study, flat = given.task.study, self._bench.answers.flat
        noise, shared = study.noise.get(mode, []), study.shared.get(mode, frozenset())
        return [
            Expected(output.tree, [view(flat, x) for x in output.tensors], noise, oracle, shared)
            for output, oracle in zip(timed.outputs, oracles, strict=True)
        ]

    def _wrong(
        self,
        given: Correctness,
        mode: Mode,
        expected: list[Expected],
        timed: CpuTimed,
        poison: int,
    ) -> Trial | None:
        """The first answer that is wrong, as a failed trial."""
        for target, output in zip(expected, timed.outputs, strict=True):
            try:
                verdict = given.examiner.examine(target, output, given.outputs, poison)
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

    def time(self, model: torch.nn.Module, drawn: list[_Drawn]) -> CpuTimed:
        """The same calls that the candidate gets."""

        def ready(call: Call) -> None:
            model.train(call.mode == "train")
            seed_everything(call.seed)

        for one in drawn:
            copy_into(self.given.flat, one.layouts, one.own.tensors)
        body = CpuTime(calls=tuple(one.request for one in drawn))
        pools = (self.given.flat, self.answers.flat)
        try:
            return cpu_timing.run(body, pools, ready, model, (), self.recorder)
        except Exception as error:
            text = f"while it was timed: {type(error).__name__}: {error}"
            raise TaskError("reference_forward_error", text[:1000]) from error

    def close(self) -> None:
        """Give the memory back."""
        self.given.close()
        self.answers.close()
        cpu_timing.keep_memory(False)


def _ask_candidate(given: Correctness, drawn: list[_Drawn], samples: Samples) -> CpuTimed:
    given.announce(f"candidate {STAGE}")
    body = CpuTime(calls=tuple(one.request for one in drawn))
    began = time.perf_counter_ns()
    frame = given.peer.request(STAGE, Kind.TIME, body, limit_s=given.limit_s)
    spent_us = (time.perf_counter_ns() - began) / 1e3
    timed = parse(CpuTimed, frame, STAGE)
    if not len(timed.calls_us) == len(timed.own_us) == len(timed.outputs) == len(drawn):
        raise PeerGarbled(STAGE, "calls asked for and answered differ in number")
    if min(timed.calls_us) <= 0 or sum(timed.calls_us) > spent_us * (os.cpu_count() or 1):
        raise PeerGarbled(STAGE, f"calls of {timed.calls_us} us within {spent_us:.0f} us")
    samples.candidate.append(min(timed.calls_us[1:]))
    samples.calls += timed.calls_us[1:]
    pairs = zip(timed.own_us[1:], timed.calls_us[1:], strict=True)
    samples.shares += [min(1.0, max(0.0, own / call)) for own, call in pairs]
    samples.kernels += timed.kernels
    samples.hidden.append((spent_us - sum(timed.calls_us)) / len(drawn))
    return timed
