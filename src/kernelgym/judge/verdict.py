"""The one place where evidence becomes an outcome.

    evidence of tampering (a forged frame)                       -> hack
    a stop (an earlier stage settled it)                         -> that outcome
    a trial of a deciding mode failed, a probe's or a timed one  -> mismatch
    own kernels did not do the work, where they are required     -> hack
    otherwise                                                    -> correct

Findings that decide nothing are added whatever the outcome. Whose work it was is not asked of a
candidate that is wrong anyway: it should learn to be right first. Shares of device time that own
kernels claim and did not earn (`Dossier.idle`), or that the judge's clock contradicts, are taken
back here, so that nothing else has to know about them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kernelgym import backends
from kernelgym.judge import findings, shares
from kernelgym.judge.catalogue import confidence_of
from kernelgym.judge.dossier import Dossier, Measured, Stop
from kernelgym.judge.measure import NO_GPU
from kernelgym.judge.protocols import Modes
from kernelgym.judge.study import Study
from kernelgym.schema import (
    EvalResult,
    Failure,
    Finding,
    KernelRecord,
    Outcome,
    Profile,
    Provenance,
    Submission,
    Timing,
    Trial,
)
from kernelgym.trace.profile import sentence

_RANK = {"hack": 0, "warning": 1, "info": 2}


@dataclass(frozen=True)
class Ruling:
    """Outcome, reason and findings."""

    outcome: Outcome
    failure: Failure | None
    findings: tuple[Finding, ...]


def rule(dossier: Dossier, submission: Submission, study: Study, modes: Modes) -> Ruling:
    """Decide."""
    needs_own = backends.get(submission.backend).needs_own_kernel
    found = [*dossier.findings, *dossier.measured.findings, *findings.remarks(dossier, study)]
    stop = dossier.stop or _mismatch(dossier.trials, modes)
    found += _undecided_mismatch(dossier.trials, modes)
    found += findings.replayed(dossier.trials)
    if needs_own and (stop is None or stop.outcome is Outcome.MISMATCH):
        found += findings.own_work(dossier, study, submission)
    found = [findings.with_line(finding, submission) for finding in found]
    if stop is None or stop.finding is None:
        evidence = [finding for finding in found if finding.severity == "hack"]
        if stop is not None:
            evidence = [finding for finding in evidence if finding.id not in findings.OWN_WORK]
        stop = _hack(evidence[0]) if evidence else stop
    if stop is None or stop.finding is None:  # then nothing is an accusation
        found = [finding for finding in found if finding.severity != "hack"]
    elif stop.finding not in found:
        found.append(stop.finding)
    ordered = tuple(sorted(map(_sure, found), key=lambda finding: _RANK[finding.severity]))
    if stop is None:
        return Ruling(Outcome.CORRECT, None, ordered)
    return Ruling(stop.outcome, stop.failure, ordered)


def _sure(finding: Finding) -> Finding:
    return finding.model_copy(update={"confidence": confidence_of(finding.id)})


def _hack(finding: Finding) -> Stop:
    failure = Failure(
        stage="launches",
        code=finding.id,
        message=finding.message,
        line=finding.line,
        excerpt=finding.excerpt,
    )
    return Stop(Outcome.HACK, failure, finding)


def _mismatch(trials: Sequence[Trial], modes: Modes) -> Stop | None:
    deciding = [trial for trial in trials if trial.mode in modes.deciding]
    failed = [trial for trial in deciding if not trial.passed]
    if not failed:
        return None
    first = failed[0]
    message = (
        f"{len(failed)} of {len(deciding)} trials failed, first in {first.mode} mode, "
        f"trial {first.index}: {first.detail or first.status}"
    )
    return Stop(Outcome.MISMATCH, Failure(stage="compare", code=first.status, message=message))


def _undecided_mismatch(trials: Sequence[Trial], modes: Modes) -> list[Finding]:
    """Failures in a mode that is only checked: said, not counted."""
    failed = [trial for trial in trials if not trial.passed and trial.mode not in modes.deciding]
    if not failed:
        return []
    text = f"wrong in {failed[0].mode} mode, which this protocol does not count: {failed[0].detail}"
    return [
        Finding(
            id="other_mode_mismatch", severity="warning", message=text[:500], evidence="outside"
        )
    ]


def result(
    submission: Submission, dossier: Dossier, ruling: Ruling, provenance: Provenance
) -> EvalResult:
    """The record of an evaluation."""
    measured = shares.credited(dossier)
    correct = ruling.outcome is Outcome.CORRECT
    record = _of_record(measured.timings) if correct else None
    profile = _profile(dossier, measured)
    reasons = dict(measured.not_measured)
    if not reasons and not measured.timings:
        text = NO_GPU if correct else "not measured: the candidate was not correct"
        reasons = dict.fromkeys(("speedup", "coverage", "displaced"), text)
    if profile is None:
        reasons["profile"] = "no launch and no operator was recorded"
    return EvalResult(
        task=submission.task.name,
        backend=submission.backend,
        outcome=ruling.outcome,
        correct=correct,
        speedup=record.speedup if record else None,
        speedup_interval=(record.speedup_low, record.speedup_high) if record else None,
        reference_ms=record.reference_ms if record else None,
        kernel_ms=record.kernel_ms if record else None,
        coverage=measured.coverage,
        displaced=measured.displaced,
        findings=ruling.findings,
        failure=ruling.failure,
        trials=tuple(dossier.trials),
        timings=measured.timings,
        profile=profile,
        not_measured=reasons,
        provenance=provenance,
    )


def _of_record(timings: Sequence[Timing]) -> Timing | None:
    """The worse mode."""
    return min(timings, key=lambda timing: timing.speedup, default=None)


def _profile(dossier: Dossier, measured: Measured) -> Profile | None:
    kernels = measured.kernels or tuple(
        KernelRecord(
            name=name,
            own=own,
            effect=shares.effect_of(dossier, name, own=own),
            calls=max(1, round(count / evidence.calls)),
            grid=grid,
            mode=mode,
        )
        for mode, evidence in dossier.evidence.items()
        for (name, own, grid), count in evidence.launches.most_common()
    )
    operators = {
        name: max(1, round(count / evidence.calls))
        for mode, evidence in reversed(dossier.evidence.items())
        for name, count in evidence.operators.items()
    }
    if not kernels and not operators and not dossier.compiled:
        return None
    return Profile(
        kernels=kernels,
        compiled=tuple(dossier.compiled),
        total_us=measured.total_us,
        generated_us=measured.generated_us,
        sentence=sentence(measured.generated_us, measured.total_us)
        if dossier.on_gpu and measured.total_us and measured.generated_us is not None
        else "",
        min_bytes=measured.min_bytes,
        flops=measured.flops,
        bandwidth_share=measured.bandwidth_share,
        flops_per_s=measured.flops_per_s,
        operators=operators,
    )
