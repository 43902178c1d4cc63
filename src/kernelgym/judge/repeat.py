"""An evaluation, and further ones in fresh processes when its numbers ask for that.

A void sandwich is replaced by the repetition. A number too good to be believed is kept beside the
one measured again, and the worse of the two is of record.
"""

from __future__ import annotations

from collections.abc import Sequence

from kernelgym.judge.dossier import Dossier, Measured
from kernelgym.judge.evaluation import Evaluation
from kernelgym.judge.gate import Gate
from kernelgym.judge.link import JudgeLink
from kernelgym.judge.prepare import PreparedTask
from kernelgym.judge.probes import PROBES, Probe
from kernelgym.judge.protocols import Modes
from kernelgym.judge.stopwatch import Stopwatch
from kernelgym.schema import Finding, Submission

MAX_REPEATS = 2


def evaluate(
    task: PreparedTask,
    submission: Submission,
    link: JudgeLink,
    watch: Stopwatch,
    gate: Gate,
    probes: Sequence[Probe] = PROBES,
) -> tuple[Dossier, Modes]:
    """Everything about one candidate, repetitions included."""
    first = Evaluation(task, submission, link, watch, gate, probes)
    dossier, reason = first.run(), first.measurement.again
    for _ in range(MAX_REPEATS):
        if not reason or dossier.stop is not None:
            break
        repeated = Evaluation(task, submission, link, watch, gate, probes)
        later, earlier_reason = repeated.run(), reason
        reason = repeated.measurement.again
        if earlier_reason.startswith("void"):
            dossier = later
            _note(dossier, earlier_reason)
            continue
        dossier = _both(dossier, later, earlier_reason)
        break
    return dossier, first.modes


def _both(first: Dossier, second: Dossier, reason: str) -> Dossier:
    """The second one, with the first one's numbers beside its own."""
    if second.stop is not None or not all(trial.passed for trial in second.trials):
        return second
    second.measured = _merge(first.measured, second.measured)
    _note(second, reason)
    return second


def _note(dossier: Dossier, reason: str) -> None:
    dossier.measured.findings.append(
        Finding(
            id="measured_again",
            severity="info",
            message=f"measured again in a fresh process, because {reason}"[:500],
            evidence="outside",
        )
    )


def _merge(first: Measured, second: Measured) -> Measured:
    def smaller(one: float | None, other: float | None) -> float | None:
        return min(one, other) if one is not None and other is not None else other

    second.timings = (*first.timings, *second.timings)
    second.coverage = smaller(first.coverage, second.coverage)
    second.displaced = smaller(first.displaced, second.displaced)
    return second
