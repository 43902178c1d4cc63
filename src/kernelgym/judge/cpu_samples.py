"""What pairs of timed calls on a CPU say: times, coverage, kernels, doubts.

The claims of a candidate's process meet what the host read of its processor time: what it spent
beside them, and the reference does not, is charged; much of that, and nothing is believed. Where
the host cannot tell, the judge's clock of wall time bounds a call. A reference that was slower
while the candidate lived is taken as it was alone.

Not covered: how samples come about (`kernelgym.judge.cpu_measure`).
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field

from kernelgym.judge import clock
from kernelgym.judge.dossier import Measured
from kernelgym.sandbox.cpu_timing import CpuTimed, KernelTime
from kernelgym.sandbox.outside_clock import TreeClock
from kernelgym.schema import Finding, KernelRecord, Mode, Timing

HIDDEN_US = 5_000.0
"""What a call may take beside the time it claims: copies, seeds, messages; or as long as itself,
or `HIDDEN_AS_OURS` times what the reference's calls take beside theirs."""
HIDDEN_AS_OURS = 4.0
TOLERATED_US, TOLERATED_OF_OURS = 900.0, 0.4
"""Processor time that may be spent beside a call beyond what the reference spends there, at least
and as a part of that: messages, a first launch that is recorded. Honest ones take 300 to 680."""
LAUNCH_US, MOST_LAUNCHES = 110.0, 20
"""For each further launch that is recorded, and for how many: they are claims, too. Honest: 100."""
MOST_CHARGED = 0.5
"""Of the claim; a clock that is further off is not believed at all."""
LOW_COVERAGE = 0.3
SLOWED = 1.25
"""So much slower than alone the reference may be while a candidate lives."""
_NO_SHARE = "a CPU has no profile of the reference to compare with"


@dataclass
class Samples:
    """What the rounds of one mode gave, in microseconds."""

    alone: float = 0.0
    """The reference, while no candidate lived."""
    reference: list[float] = field(default_factory=list)
    candidate: list[float] = field(default_factory=list)
    """The same calls, in the same order."""
    shares: list[float] = field(default_factory=list)
    """Part of each of the candidate's that own kernels claim."""
    kernels: list[KernelTime] = field(default_factory=list)
    hidden: list[float] = field(default_factory=list)
    """For each call, what it took by the judge's clock beyond what was claimed."""
    ours: list[float] = field(default_factory=list)
    """The same of the reference."""
    beside: list[float] = field(default_factory=list)
    """For each call, processor time of the candidate's tree beside what was claimed."""
    reaped: list[float] = field(default_factory=list)
    """For each call, that of children that have ended; in ticks, so only the mean tells."""
    ours_beside: list[float] = field(default_factory=list)
    """Of the reference, beside its calls."""
    is_known: bool = True
    """Whether the host could always tell."""

    def add(self, reference: CpuTimed, candidate: CpuTimed) -> None:
        """A pair of calls on the same input."""
        self.reference.append(reference.call_us)
        self.candidate.append(candidate.call_us)
        self.shares.append(min(1.0, max(0.0, candidate.own_us / candidate.call_us)))
        self.kernels += candidate.kernels

    def look_outside(
        self, before: TreeClock | None, after: TreeClock | None, claimed_us: float
    ) -> None:
        """What the host read around a call."""
        if before is None or after is None:
            self.is_known = False
            return
        self.beside.append((after.living_ns - before.living_ns) / 1e3 - claimed_us)
        self.reaped.append((after.reaped_ns - before.reaped_ns) / 1e3)

    @property
    def charge_us(self) -> float | None:
        """What a call takes beside its claim that the reference does not; None: nobody knows."""
        if not (self.is_known and self.beside and self.ours_beside):
            return None
        ours = statistics.median(self.ours_beside)
        excess = statistics.median(self.beside) + statistics.mean(self.reaped) - ours
        launches = sum(kernel.launches for kernel in self.kernels) / max(1, len(self.candidate))
        more = min(MOST_LAUNCHES, max(0.0, launches - 1.0))
        tolerated = max(TOLERATED_US, TOLERATED_OF_OURS * ours) + LAUNCH_US * more
        return excess - tolerated if excess > tolerated else 0.0

    @property
    def charged(self) -> list[float]:
        """The candidate's calls with what is charged to them."""
        return [call_us + (self.charge_us or 0.0) for call_us in self.candidate]

    @property
    def charged_shares(self) -> list[float]:
        """Parts that own kernels claim, of the charged time."""
        pairs = zip(self.shares, self.candidate, self.charged, strict=True)
        return [share * claimed / charged for share, claimed, charged in pairs]

    @property
    def ratios(self) -> list[float]:
        """Reference over candidate, pair by pair."""
        return [a / max(b, 1e-3) for a, b in zip(self.reference, self.charged, strict=True)]

    @property
    def fair_ratios(self) -> list[float]:
        """The same; where the reference was slower beside the candidate, it counts as alone."""
        fair = self.slowed if self.is_slowed else 1.0
        return [ratio / fair for ratio in self.ratios]

    @property
    def slowed(self) -> float:
        """How much slower the reference was beside the candidate than alone; 1 is no slower."""
        if not self.alone or not self.reference:
            return 1.0
        return statistics.median(self.reference) / self.alone

    @property
    def is_slowed(self) -> bool:
        """Whether that is more than a machine's own moods."""
        return self.slowed > SLOWED


def conclude(found: Mapping[Mode, Samples]) -> Measured:
    """All modes; the worse one is of record."""
    if not all(samples.candidate for samples in found.values()):
        return Measured()
    measured = Measured(not_measured={"displaced": _NO_SHARE})
    for mode, samples in found.items():
        hidden, claimed = min(samples.hidden), statistics.median(samples.candidate)
        allowed = HIDDEN_AS_OURS * statistics.median(samples.ours)
        charge_us = samples.charge_us
        if charge_us is None and hidden > max(HIDDEN_US, claimed, allowed):
            return _contradicted(mode, hidden, claimed)
        if charge_us is not None and charge_us > MOST_CHARGED * claimed:
            return _contradicted(mode, charge_us, claimed, "host")
        measured.findings += _findings(mode, samples)
        measured.kernels += _kernels(mode, samples)
    measured.timings = _timings(found)
    shares = {mode: statistics.median(samples.charged_shares) for mode, samples in found.items()}
    worse = min(shares, key=lambda mode: shares[mode])
    measured.coverage = shares[worse]
    measured.total_us = statistics.median(found[worse].charged)
    measured.generated_us = shares[worse] * measured.total_us
    return measured


def _timings(found: Mapping[Mode, Samples]) -> tuple[Timing, ...]:
    """Modes that do not differ say the same, together: the slower one is of record, and of two
    noisy numbers the smaller one is too small."""
    own = {mode: clock.median_interval(samples.fair_ratios) for mode, samples in found.items()}
    if max(one.low for one in own.values()) <= min(one.high for one in own.values()):
        ratios = [ratio for samples in found.values() for ratio in samples.fair_ratios]
        own = dict.fromkeys(own, clock.median_interval(ratios))
    return tuple(_timing(mode, samples, own[mode]) for mode, samples in found.items())


def _timing(mode: Mode, samples: Samples, speedup: clock.Interval) -> Timing:
    """``reference_ms`` is what the speedup makes of ``kernel_ms``, a median."""
    kernel_ms = statistics.median(samples.charged) / 1e3
    return Timing(
        mode=mode,
        reference_ms=kernel_ms * speedup.middle,
        kernel_ms=kernel_ms,
        speedup=speedup.middle,
        speedup_low=speedup.low,
        speedup_high=speedup.high,
        pairs=len(samples.candidate),
        reference_samples_ms=tuple(us / 1e3 for us in samples.reference),
        kernel_samples_ms=tuple(us / 1e3 for us in samples.charged),
        clock="cpu",
    )


def _kernels(mode: Mode, samples: Samples) -> tuple[KernelRecord, ...]:
    calls, total = len(samples.candidate), sum(samples.charged)
    kernel_us = statistics.median(samples.charged)
    found: dict[tuple[str, bool], tuple[int, float]] = {}
    for kernel in samples.kernels:
        launches, spent = found.get((kernel.name, kernel.own), (0, 0.0))
        found[kernel.name, kernel.own] = launches + kernel.launches, spent + kernel.time_us
    ordered = sorted(found.items(), key=lambda entry: -entry[1][1])
    return tuple(
        KernelRecord(
            name=name,
            own=own,
            calls=max(1, round(launches / calls)),
            time_us=round(spent / total * kernel_us, 3),
            share=min(1.0, spent / total),
            mode=mode,
        )
        for (name, own), (launches, spent) in ordered
    )


def _findings(mode: Mode, samples: Samples) -> list[Finding]:
    found = []
    if samples.is_slowed:
        text = f"{samples.slowed:.2f} times as slow in {mode} mode while the candidate lived"
        found.append(_finding("unsteady_reference", "info", f"the reference was {text}"))
    coverage = statistics.median(samples.charged_shares)
    if coverage < LOW_COVERAGE:
        text = f"own kernels claim {100 * coverage:.1f}% of a call's time in {mode} mode"
        found.append(_finding("low_coverage", "warning", text, evidence="claimed"))
    return found


def _contradicted(
    mode: Mode, hidden_us: float, claimed_us: float, whose: str = "judge"
) -> Measured:
    """Nothing that the candidate's clock says is believed."""
    text = (
        f"in {mode} mode calls claim {claimed_us:.0f} us, the {whose}'s clock sees"
        f" {hidden_us:.0f} us more"
    )
    reason = "withheld: the candidate's clock does not agree with ours"
    return Measured(
        findings=[_finding("profile_contradiction", "warning", text)],
        not_measured=dict.fromkeys(("speedup", "coverage", "displaced"), reason),
    )


def _finding(name: str, severity: str, message: str, *, evidence: str = "outside") -> Finding:
    return Finding.model_validate(
        {"id": name, "severity": severity, "message": message, "evidence": evidence}
    )
