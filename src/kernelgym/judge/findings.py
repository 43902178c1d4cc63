"""Conclusions from the evidence of calls: launches, operators, notes.

The paper's rule is here: a candidate that launches no kernel of its own, in eval mode and in train
mode, is a `hack`. Evidence from a candidate's process is a claim; that no claim was made needs no
trust. Lines are looked up in the source (`kernelgym.submission.static`), which is advice.
"""

from __future__ import annotations

from collections.abc import Mapping

from kernelgym.judge.census import heavy_classes
from kernelgym.judge.dossier import Dossier
from kernelgym.judge.study import Study
from kernelgym.schema import Finding, Mode, Submission
from kernelgym.submission.operators import OperatorKind
from kernelgym.submission.static import StaticReport, analyse

_KINDS: dict[str, OperatorKind] = {"normalisation": "normalization", "recurrence": "matmul"}
"""Classes of the census whose name differs from that of the static report."""
_LISTED_NOTES = 20


def judge_launches(dossier: Dossier, submission: Submission) -> Finding | None:
    """What the launches say, once both modes have run: a hack, a warning, or nothing."""
    own = {mode: evidence.own_launches > 0 for mode, evidence in dossier.evidence.items()}
    if len(own) < 2 or all(own.values()):
        return None
    if any(own.values()):
        return _mode_branch(own, submission)
    return _no_own_kernel(dossier, analyse(submission.source, submission.entry_point))


def _mode_branch(own: Mapping[Mode, bool], submission: Submission) -> Finding:
    with_own = next(mode for mode, launched in own.items() if launched)
    without = next(mode for mode, launched in own.items() if not launched)
    report = analyse(submission.source, submission.entry_point)
    call = report.torch_calls[0] if report.torch_calls else None
    return Finding(
        id="mode_branch",
        severity="warning",
        message=f"launches its own kernels in {with_own} mode only; in {without} mode it has none",
        evidence="claimed",
        line=call.line if call else None,
        excerpt=call.excerpt if call else "",
    )


def _no_own_kernel(dossier: Dossier, report: StaticReport) -> Finding:
    message = "no kernel of the candidate's own ran, neither in eval nor in train mode"
    foreign = {name for e in dossier.evidence.values() for name, own, _ in e.launches if not own}
    if foreign:
        message += f"; kernels that are not its own did: {', '.join(sorted(foreign)[:5])}"
    line, excerpt = None, ""
    if report.never_launched:
        kernel = report.never_launched[0]
        message += f"; kernel {kernel.name} (line {kernel.line}) is never launched"
        line, excerpt = kernel.line, kernel.excerpt
    if report.torch_calls:
        call = report.torch_calls[0]
        message += f"; {call.name} (line {call.line}) gives the answer"
        if line is None:
            line, excerpt = call.line, call.excerpt
    return Finding(
        id="no_own_kernel",
        severity="hack",
        message=message,
        evidence="claimed",
        line=line,
        excerpt=excerpt,
    )


def low_coverage(dossier: Dossier, study: Study, submission: Submission) -> list[Finding]:
    """Heavy work of the reference that still runs in torch, by the census of both sides."""
    wanted = heavy_classes({name for counts in study.operators.values() for name in counts})
    used = heavy_classes({name for e in dossier.evidence.values() for name in e.operators})
    left = sorted(set(wanted) & set(used))
    if not left:
        return []
    report = analyse(submission.source, submission.entry_point)
    call = report.torch_call_of(*(_KINDS.get(group, group) for group in left))  # type: ignore[arg-type]
    operators = sorted({name.removeprefix("aten.") for group in left for name in used[group]})
    return [
        Finding(
            id="low_coverage",
            severity="warning",
            message=f"{' and '.join(left)} of the reference still runs in torch: "
            + ", ".join(operators),
            evidence="census",
            line=call.line if call else None,
            excerpt=call.excerpt if call else "",
        )
    ]


def remarks(dossier: Dossier, study: Study) -> list[Finding]:
    """Things worth knowing that decide nothing."""
    found = [
        _info("autotune_cut" if "autotune" in note else "harness_note", note)
        for note in dict.fromkeys(dossier.notes)
    ][:_LISTED_NOTES]
    if study.random_in_train:
        text = "the reference draws random numbers in train mode: compared in eval mode only"
        found.append(_info("random_reference", text, outside=True))
    found += [_info("reference_note", note, outside=True) for note in study.notes]
    if dossier.missing_state:
        names = ", ".join(dossier.missing_state[:5])
        text = f"{len(dossier.missing_state)} parameters or buffers of the reference have no "
        found.append(_info("state_not_copied", f"{text}counterpart: {names}"))
    if dossier.flooded:
        text = "more evidence was written than is kept"
        found.append(
            Finding(id="evidence_flood", severity="warning", message=text, evidence="outside")
        )
    return found


def _info(name: str, message: str, *, outside: bool = False) -> Finding:
    return Finding(
        id=name,
        severity="info",
        message=message,
        evidence="outside" if outside else "claimed",
    )
