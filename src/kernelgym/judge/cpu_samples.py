"""What rounds of timed calls on a CPU say: times, coverage, kernels, doubts.

The claims of a candidate's process meet the judge's clock here: a call that took far more than it
claims is not believed, and a reference that was slower while the candidate lived is taken as it was
alone.

Not covered: how samples come about (`kernelgym.judge.cpu_measure`).
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field

from kernelgym.judge import clock
from kernelgym.judge.dossier import Measured
from kernelgym.sandbox.cpu_timing import KernelTime
from kernelgym.schema import Finding, KernelRecord, Mode, Timing

HIDDEN_US = 5_000.0
"""What a call may take beside the time it claims: copies, seeds, messages; or as long as itself,
or `HIDDEN_AS_OURS` times what the reference's calls take beside theirs."""
HIDDEN_AS_OURS = 4.0
LOW_COVERAGE = 0.3
SLOWED = 1.25
"""So much slower than alone the reference may be while a candidate lives."""
_NO_SHARE = "a CPU has no profile of the reference to compare with"


@dataclass
class Samples:
    """What the rounds of one mode gave, in microseconds."""

    alone: float = 0.0
    """The reference, before a candidate lived."""
    reference: list[float] = field(default_factory=list)
    candidate: list[float] = field(default_factory=list)
    calls: list[float] = field(default_factory=list)
    """All timed calls of the candidate."""
    shares: list[float] = field(default_factory=list)
    """Part of each that own kernels claim."""
    kernels: list[KernelTime] = field(default_factory=list)
    hidden: list[float] = field(default_factory=list)
    """For each round, what a call took by the judge's clock beyond what was claimed."""
    ours: list[float] = field(default_factory=list)
    """The same of the reference."""

    @property
    def ratios(self) -> list[float]:
        """Reference over candidate, round by round."""
        return [a / max(b, 1e-3) for a, b in zip(self.reference, self.candidate, strict=True)]

    @property
    def slowed(self) -> float:
        """How much slower the reference was beside the candidate than alone; 1 is no slower."""
        return statistics.median(self.reference) / self.alone if self.alone else 1.0


def conclude(found: Mapping[Mode, Samples]) -> Measured:
    """All modes; the worse one is of record."""
    if not all(samples.candidate for samples in found.values()):
        return Measured()
    measured = Measured(not_measured={"displaced": _NO_SHARE})
    for mode, samples in found.items():
        hidden, claimed = min(samples.hidden), statistics.median(samples.calls)
        allowed = HIDDEN_AS_OURS * statistics.median(samples.ours)
        if hidden > max(HIDDEN_US, claimed, allowed):
            return _contradicted(mode, hidden, claimed)
        measured.findings += _findings(mode, samples)
        measured.kernels += _kernels(mode, samples)
    measured.timings = tuple(_timing(mode, samples) for mode, samples in found.items())
    shares = {mode: statistics.median(samples.shares) for mode, samples in found.items()}
    worse = min(shares, key=lambda mode: shares[mode])
    measured.coverage = shares[worse]
    measured.total_us = statistics.median(found[worse].calls)
    measured.generated_us = shares[worse] * measured.total_us
    return measured


def _timing(mode: Mode, samples: Samples) -> Timing:
    """Lower quartiles of both sides, which a busy machine moves less than medians; the interval is
    that of the rounds' ratios, widened to hold the quotient. Where the reference was slower beside
    the candidate, it counts as it was alone."""
    fair = samples.slowed if samples.slowed > SLOWED else 1.0
    kernel = _lower_quartile(samples.candidate)
    reference = _lower_quartile(samples.reference) / fair
    speedup = reference / kernel
    interval = clock.median_interval(samples.ratios)
    return Timing(
        mode=mode,
        reference_ms=reference / 1e3,
        kernel_ms=kernel / 1e3,
        speedup=speedup,
        speedup_low=min(speedup, interval.low / fair),
        speedup_high=max(speedup, interval.high / fair),
        pairs=len(samples.candidate),
        reference_samples_ms=tuple(us / 1e3 for us in samples.reference),
        kernel_samples_ms=tuple(us / 1e3 for us in samples.candidate),
        clock="cpu",
    )


def _lower_quartile(times_us: list[float]) -> float:
    return max(1e-3, statistics.quantiles(times_us, n=4, method="inclusive")[0])


def _kernels(mode: Mode, samples: Samples) -> tuple[KernelRecord, ...]:
    calls, total = len(samples.calls), sum(samples.calls)
    kernel_us = statistics.median(samples.candidate)
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
    if samples.slowed > SLOWED:
        text = f"{samples.slowed:.2f} times as slow in {mode} mode while the candidate lived"
        found.append(_finding("unsteady_reference", "info", f"the reference was {text}"))
    coverage = statistics.median(samples.shares)
    if coverage < LOW_COVERAGE:
        text = f"own kernels claim {100 * coverage:.1f}% of a call's time in {mode} mode"
        found.append(_finding("low_coverage", "warning", text, evidence="claimed"))
    return found


def _contradicted(mode: Mode, hidden_us: float, claimed_us: float) -> Measured:
    """Nothing that the candidate's clock says is believed."""
    text = (
        f"in {mode} mode calls claim {claimed_us:.0f} us, the judge's clock sees"
        f" {hidden_us:.0f} us more"
    )
    reason = "withheld: the candidate's clock does not agree with the judge's"
    return Measured(
        findings=[_finding("profile_contradiction", "warning", text)],
        not_measured=dict.fromkeys(("speedup", "coverage", "displaced"), reason),
    )


def _finding(name: str, severity: str, message: str, *, evidence: str = "outside") -> Finding:
    return Finding.model_validate(
        {"id": name, "severity": severity, "message": message, "evidence": evidence}
    )
