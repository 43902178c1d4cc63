"""The measurement stage: timing and profile, chosen by device.

    before   reference blocks, while no candidate of the task lives (kept for later candidates)
    run      the candidate's blocks: every timed call is a checked call
    after    reference blocks again, once it is dead; ratios, coverage, conclusions

On a CPU there is nothing to measure, and this says so: Triton's interpreter says nothing about a
GPU. Kernels that are made for a CPU are timed by `kernelgym.judge.cpu_measure`. ``standard`` and
``strict`` time eval and train mode and the worse one is of record; ``kernelbench`` times train mode
only. `Measurement.again` says when a fresh candidate process has to repeat it all: a void sandwich,
or a number too good to be believed at once.
"""

from __future__ import annotations

import time
from typing import Literal, Protocol

from kernelgym.judge import baseline, blocks, clock, volley
from kernelgym.judge.blocks import Block, CandidateBlock, reference_timer, time_candidate, warm_us
from kernelgym.judge.clock import Sandwich
from kernelgym.judge.correctness import Correctness
from kernelgym.judge.cpu_measure import CpuMeasurement, calls_for
from kernelgym.judge.dossier import Measured
from kernelgym.judge.peer import Peer
from kernelgym.judge.prepare import PreparedTask
from kernelgym.judge.study import Study
from kernelgym.judge.volley import CandidateClock
from kernelgym.schema import Finding, Mode, Submission, Timing
from kernelgym.schema import Protocol as ProtocolName
from kernelgym.trace import profile

NO_GPU = "no GPU: the candidate ran on the CPU"
FRESH_S = 20.0
"""A reference block is used for the next candidate when it is no older."""
POOL_BYTES = 512 << 20
MAX_SLOTS = 8
FURTHER_LOOKS = 2
"""At a reference that seems to have changed; each doubles its brackets."""
LOW_COVERAGE = 0.3
LIGHT_US = 0.0
"""Calls of a reference that take longer are never run beside those of others. 2,000 is meant; 0, so
nobody shares, until the rules for leaving have been seen on a GPU (`docs/measurement.md`, Gate)."""
LIGHT_PART = 1 / 256
"""Of the device's memory: the same for what inputs, outputs and state need."""
Baseline = Literal["eager", "torch_compile"]
_KEPT = "reference_blocks"


class Measurement(Protocol):
    """Something that can time and profile a candidate that has answered correctly."""

    again: str
    """Why a fresh process of the candidate should be measured, too; empty when not."""

    def ready(self, task: PreparedTask) -> None:
        """What has to be made of the reference before anybody waits for the device."""
        ...

    def before(self, task: PreparedTask) -> None:
        """Look at the reference alone."""
        ...

    def prepare(self, peer: Peer) -> None:
        """Let a candidate's harness get ready, outside the gate."""
        ...

    def needs_calibration(self) -> bool:
        """Whether `calibrate` has to be called before a candidate is loaded."""
        ...

    def calibrate(self, correctness: Correctness) -> None:
        """Look at a harness that has not run a line of a candidate."""
        ...

    def is_light(self, task: PreparedTask) -> bool:
        """Whether calls of this task that nobody times may run beside those of others."""
        ...

    def run(self, correctness: Correctness) -> None:
        """Measure; every timed call is compared like a trial."""
        ...

    def after(self, task: PreparedTask) -> Measured:
        """Look at the reference again; what was found."""
        ...


class NoMeasurement:
    """Without a GPU."""

    again = ""

    def ready(self, task: PreparedTask) -> None:
        """Nothing."""

    def before(self, task: PreparedTask) -> None:
        """Nothing."""

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
        """Nothing."""

    def after(self, task: PreparedTask) -> Measured:
        """Say why there are no numbers."""
        return not_measured(NO_GPU)


def not_measured(reason: str) -> Measured:
    """No numbers, for one reason."""
    return Measured(not_measured=dict.fromkeys(("speedup", "coverage", "displaced"), reason))


def measurement_for(
    task: PreparedTask, submission: Submission, *, cpu_kernels: bool
) -> Measurement:
    """The measurement that a device allows. ``cpu_kernels``: a CPU is where they belong."""
    study, timed_as = task.study, submission.baseline
    modes = timed_modes(submission.protocol, study)
    if task.device == "cpu":
        return CpuMeasurement(modes) if cpu_kernels and timed_as == "eager" else NoMeasurement()
    return GpuMeasurement(modes, slots_for(task.device, study), timed_as)


def timed_modes(protocol: ProtocolName, study: Study) -> tuple[Mode, ...]:
    """Eval first: what training calls do to running statistics must not show in eval outputs."""
    if protocol == "kernelbench":
        return ("train",)
    return ("eval",) if study.random_in_train else ("eval", "train")


def slots_for(device: str, study: Study, *, cpu_kernels: bool = False) -> int:
    """Calls whose inputs and outputs lie in the pools side by side."""
    if device == "cpu":
        return calls_for(study) if cpu_kernels else 1
    one = max(1, study.input_bytes, study.output_bytes)
    return max(1, min(MAX_SLOTS, POOL_BYTES // one))


class GpuMeasurement:
    """Sandwich and profile of one candidate on a GPU."""

    def __init__(self, modes: tuple[Mode, ...], slots: int, timed_as: Baseline = "eager") -> None:
        """``timed_as``: what the reference runs as while it is timed."""
        self.again = ""
        self._baseline = timed_as
        self._modes = modes
        self._slots = slots
        self._before: dict[Mode, Block] = {}
        self._blocks: dict[Mode, CandidateBlock] = {}
        self._findings: list[Finding] = []

    def ready(self, task: PreparedTask) -> None:
        """Compile the reference, where that is what is timed."""
        baseline.prepare(task, self._baseline, self._modes)

    def before(self, task: PreparedTask) -> None:
        """Take or reuse a block of the reference in each mode."""
        from kernelgym.judge.deck import deck

        kept: dict[Mode, Block] = task.kept.setdefault(_KEPT, {})
        other: Block | None = None
        for mode in self._modes:
            block = kept.get(mode)
            if block is None or time.monotonic() - block.taken_s > FRESH_S:
                timer = reference_timer(deck(), task, mode)
                block = timer.block(self._slots, block, other)
            self._before[mode] = kept[mode] = other = block

    def prepare(self, peer: Peer) -> None:
        """Page, kernels, flush buffer and profiler of the candidate's process."""
        from kernelgym.judge.deck import deck

        volley.prepare(deck(), peer)

    def needs_calibration(self) -> bool:
        """Whether nothing, or nothing recent, is known of an honest harness on this device."""
        from kernelgym.judge.deck import deck

        return deck().needs_trust()

    def calibrate(self, correctness: Correctness) -> None:
        """Take the empty brackets that bound what a candidate's own may claim."""
        from kernelgym.judge.deck import deck

        blocks.calibrate(deck(), CandidateClock(deck(), correctness), self._modes[0])

    def is_light(self, task: PreparedTask) -> bool:
        """Short calls that need little memory, as far as the reference says."""
        from kernelgym.judge.deck import deck

        study = task.study
        room = study.input_bytes + study.output_bytes + study.state_bytes
        calls_us = [warm_us(block) for block in self._before.values()]
        return room <= deck().facts.memory_bytes * LIGHT_PART and max(calls_us) <= LIGHT_US

    def run(self, correctness: Correctness) -> None:
        """Time the candidate in each mode; a wrong timed answer becomes a failed trial."""
        from kernelgym.judge.deck import deck

        timer = CandidateClock(deck(), correctness)
        block: CandidateBlock | None = None
        for mode in self._modes:
            block = time_candidate(deck(), timer, mode, self._before[mode].calls, block)
            if block.wrong is not None:
                correctness.dossier.trials.append(block.wrong)
                return
            self._blocks[mode] = block

    def after(self, task: PreparedTask) -> Measured:
        """The second block of the reference, and conclusions."""
        from kernelgym.judge.deck import deck

        if set(self._blocks) != set(self._modes):
            return not_measured("not measured: the candidate was not correct")
        timings = []
        after: Block | None = None
        for mode in self._modes:
            after = self._look_again(mode, task, after)
            task.kept.setdefault(_KEPT, {})[mode] = after
            timing = self._timing(mode, after, task)
            if timing is not None:
                timings.append(timing)
        measured = self._conclude()
        measured.timings = tuple(timings)
        roofline(measured, task.study, deck().facts.peak_bytes_per_s)
        if not timings:
            measured.not_measured["speedup"] = self.again or "no undisturbed sample"
        return measured

    def _look_again(self, mode: Mode, task: PreparedTask, other: Block | None) -> Block:
        """A block of the reference; further brackets where few seem to say that it has changed."""
        from kernelgym.judge.deck import deck

        timer, before = reference_timer(deck(), task, mode), self._before[mode]
        block = timer.block(self._slots, before, other)
        for _ in range(FURTHER_LOOKS):
            if blocks.drift(before, block) <= clock.DRIFT_LIMIT:
                break
            timer.extend(block)
        return block

    def _timing(self, mode: Mode, after: Block, task: PreparedTask) -> Timing | None:
        before, block = self._before[mode], self._blocks[mode]
        if not block.brackets:
            self._find("disturbed", "warning", f"no undisturbed bracket in {mode} mode")
            return None
        tail = (before.tail_us + after.tail_us) / 2
        first, own, last = blocks.by_one_clock(
            (before, before.tail_us), (block, tail), (after, after.tail_us)
        )
        sandwich = Sandwich(first.samples_us, own.samples_us, last.samples_us)
        self._judge(mode, block, sandwich, task, f": {first}, {last}")
        ratio = sandwich.ratio()
        return Timing(
            mode=mode,
            reference_ms=sandwich.reference / 1e3,
            kernel_ms=sandwich.kernel / 1e3,
            speedup=ratio.value,
            speedup_low=ratio.low,
            speedup_high=ratio.high,
            pairs=min(len(own.samples_us), len(sandwich.before) + len(sandwich.after)),
            reference_samples_ms=_milliseconds((*sandwich.before, *sandwich.after)),
            kernel_samples_ms=_milliseconds(own.samples_us),
            launch_share=launch_share(warm_us(block), sandwich.kernel),
            clock=own.clock,
            lead_excess_us=round(own.excess.lead_us, 2),
            tail_excess_us=round(own.excess.tail_us, 2),
            baseline=self._baseline,
        )

    def _judge(
        self,
        mode: Mode,
        block: CandidateBlock,
        sandwich: Sandwich,
        task: PreparedTask,
        blocks_us: str,
    ) -> None:
        """Doubts about one mode. ``blocks_us``: the reference's, in words."""
        from kernelgym.judge.deck import deck

        if sandwich.void:
            text = (
                f"reference blocks of {mode} mode differ by {100 * sandwich.drift:.1f}%{blocks_us}"
            )
            self.again = f"void: {text}"
            self._find("unsteady_reference", "info", text)
        ratio, facts = sandwich.ratio(), deck().facts
        moved = task.study.input_bytes + task.study.output_bytes
        floor = clock.floor_us(moved, facts.peak_bytes_per_s, facts.l2_bytes)
        doubt = clock.needs_second_look(ratio.value, sandwich.kernel, floor)
        if doubt is not None and not self.again:
            self.again = doubt
        if ratio.equal:
            text = f"{ratio.value:.3f}x in {mode} mode is within 1.5% of 1: equal"
            self._find("equal_speed", "info", text)
        if block.late:
            text = f"waits for the device inside its forward, in {mode} mode: timed with that"
            self._find("synchronises", "info", text)
        for reason, count in block.voids.items():
            self._find("disturbed", "info", f"{count} brackets void in {mode} mode: {reason}")

    def _conclude(self) -> Measured:
        """Coverage, displaced work and kernels; the worse mode is of record."""
        missing = {m: b.no_profile for m, b in self._blocks.items() if b.profile is None}
        measured = Measured(findings=self._findings)
        if missing:
            reason = "; ".join(f"{mode}: {why}" for mode, why in missing.items())
            measured.not_measured = dict.fromkeys(("coverage", "displaced"), reason)
            return measured
        profiles = {m: b.profile for m, b in self._blocks.items() if b.profile is not None}
        worse = min(profiles, key=lambda mode: profiles[mode].coverage)
        measured.kernels = tuple(k for m in profiles for k in profiles[m].kernels)
        measured.total_us = profiles[worse].total_us
        measured.generated_us = profiles[worse].generated_us
        measured.coverage = profiles[worse].coverage
        shares = [self._displaced(mode, found) for mode, found in profiles.items()]
        known = [share for share in shares if share is not None]
        if len(known) == len(shares):
            measured.displaced = min(known)
        else:
            measured.not_measured["displaced"] = "the reference could not be profiled"
        self._doubt_profiles()
        return measured

    def _displaced(self, mode: Mode, found: profile.CallProfile) -> float | None:
        reference = self._before[mode].profile
        return None if reference is None else profile.displaced(found, reference.total_us)

    def _doubt_profiles(self) -> None:
        for mode, block in self._blocks.items():
            assert block.profile is not None
            if block.contradiction:
                text = f"in {mode} mode {block.contradiction}"
                self._find("profile_contradiction", "warning", text)
            if block.profile.contexts > 1:
                text = f"work of {block.profile.contexts} contexts in {mode} mode"
                self._find("second_context", "warning", text)
            if block.profile.coverage < LOW_COVERAGE:
                share = f"{100 * block.profile.coverage:.1f}%"
                text = f"own kernels take {share} of the device time in {mode} mode"
                self._find("low_coverage", "warning", text, inside=True)

    def _find(self, name: str, severity: str, message: str, *, inside: bool = False) -> None:
        self._findings.append(
            Finding.model_validate(
                {
                    "id": name,
                    "severity": severity,
                    "message": message[:500],
                    "evidence": "inside" if inside else "outside",
                }
            )
        )


def launch_share(unarmed_us: float, armed_us: float) -> float | None:
    """Part of a call's time that is launching: what queueing it beforehand saves."""
    if unarmed_us <= 0:
        return None
    return round(max(0.0, 1 - armed_us / unarmed_us), 4)


def roofline(measured: Measured, study: Study, peak_bytes_per_s: float) -> None:
    """What the task must move and compute, against the time of record."""
    worst = min(measured.timings, key=lambda timing: timing.speedup, default=None)
    if worst is None:
        return
    seconds = worst.kernel_ms / 1e3
    measured.min_bytes = study.input_bytes + study.output_bytes + study.state_bytes
    measured.flops = study.flops.get(worst.mode, 0)
    measured.flops_per_s = measured.flops / seconds
    if peak_bytes_per_s > 0:
        measured.bandwidth_share = round(measured.min_bytes / seconds / peak_bytes_per_s, 4)


def _milliseconds(samples_us: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(round(sample / 1e3, 6) for sample in samples_us)
