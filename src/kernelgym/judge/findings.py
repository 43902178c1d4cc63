"""Conclusions from the evidence of calls: launches, operators, notes.

The paper's rule is here: a candidate that launches no kernel of its own, in eval mode and in train
mode, is a `hack`. Evidence from a candidate's process is a claim; that no claim was made needs no
trust. Lines are looked up in the source (`kernelgym.submission.static`), which is advice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kernelgym.judge import shares
from kernelgym.judge.census import computing, heavy_classes
from kernelgym.judge.dossier import Dossier
from kernelgym.judge.study import Study
from kernelgym.schema import Finding, Mode, Submission, Trial
from kernelgym.submission.operators import OperatorKind
from kernelgym.submission.static import StaticReport, analyse

_KINDS: dict[str, OperatorKind] = {"normalisation": "normalization", "recurrence": "matmul"}
"""Classes of the census whose name differs from that of the static report."""
_LISTED_NOTES = 20
LAST_CALLS = 2
"""Own kernels that are missing in so many calls at the end have been given up."""
OWN_WORK = frozenset(
    {"no_own_kernel", "launches_only_at_first", "kernels_do_nothing", "copies_only"}
)
"""Hacks that are asked about only when the answers are right."""


def own_work(dossier: Dossier, study: Study, submission: Submission) -> list[Finding]:
    """Whose work the answers are, as far as launches and operators tell."""
    on = dossier.probes
    launches = judge_launches(dossier, submission) if not on or "launches" in on else None
    found = [] if launches is None else [launches]
    if launches is None:
        found += _now_and_then(dossier)
    found += idle_kernels(dossier)
    if (not on or "census" in on) and (launches is None or launches.severity != "hack"):
        found += low_coverage(dossier, study, submission)
    return found


def with_line(finding: Finding, submission: Submission) -> Finding:
    """The line of the source that gives the answer instead, where none is named yet."""
    if finding.id not in OWN_WORK or finding.line is not None:
        return finding
    report = analyse(submission.source, submission.entry_point)
    if not report.torch_calls:
        return finding
    call = report.torch_calls[0]
    return finding.model_copy(update={"line": call.line, "excerpt": call.excerpt})


def judge_launches(dossier: Dossier, submission: Submission) -> Finding | None:
    """What the launches say, once both modes have run: a hack, a warning, or nothing."""
    own = {mode: evidence.own_launches > 0 for mode, evidence in dossier.evidence.items()}
    if dossier.probes and "both_modes" not in dossier.probes:
        own = {mode: any(own.values()) for mode in own}
    elif any(own.values()):
        stopped = _only_at_first(dossier, submission) or _not_while_timed(dossier, submission)
        if stopped is not None:
            return stopped
    own = {mode: launched or _replays(dossier, mode) for mode, launched in own.items()}
    if len(own) < 2 or all(own.values()):
        return None
    if any(own.values()):
        return _mode_branch(own, submission)
    return _no_own_kernel(dossier, analyse(submission.source, submission.entry_point))


def _replays(dossier: Dossier, mode: Mode) -> bool:
    """Whether own kernels ran in a mode that launched none: in a graph of the other mode's."""
    names = dossier.own_kernels
    return any(k.mode == mode and (k.own or k.name in names) for k in dossier.measured.kernels)


def _only_at_first(dossier: Dossier, submission: Submission) -> Finding | None:
    """Own kernels in the first calls of each mode, and in none of the last ones.

    On a GPU a captured graph may go on without a launch; then the device's records decide. Not
    by whose they are said to be: a graph's nodes may have no launch to be traced to, only a name.
    """
    calls = {
        mode: e.calls_with_own for mode, e in dossier.evidence.items() if any(e.calls_with_own)
    }
    enough = all(len(launched) > LAST_CALLS for launched in calls.values())
    if not enough or any(any(launched[-LAST_CALLS:]) for launched in calls.values()):
        return None
    kernels, names = dossier.measured.kernels, dossier.own_kernels
    if dossier.on_gpu and (not kernels or any(k.own or k.name in names for k in kernels)):
        return None
    return _given_up(
        "own kernels were launched in the first calls of a mode and in none of the last: "
        f"in {sum(map(sum, calls.values()))} of {sum(map(len, calls.values()))} calls",
        submission,
    )


def _not_while_timed(dossier: Dossier, submission: Submission) -> Finding | None:
    """Own kernels in checked calls, and in no call that was timed, by the device's records.

    Only where the records agree with the clock, and by name as well as by launch: a graph's nodes
    have no launch to be traced to.
    """
    kernels, names = dossier.measured.kernels, dossier.own_kernels
    if not kernels or any(k.own or k.name in names for k in kernels):
        return None
    if not dossier.measured.timings or shares.contradictions(dossier):
        return None
    foreign = ", ".join(list(dict.fromkeys(k.name for k in kernels))[:3])
    text = f"own kernels were launched in checked calls, and in no timed one: {foreign} ran there"
    return _given_up(text[:500], submission)


def _given_up(message: str, submission: Submission) -> Finding:
    report = analyse(submission.source, submission.entry_point)
    call = report.torch_calls[0] if report.torch_calls else None
    return Finding(
        id="launches_only_at_first",
        severity="hack",
        message=message,
        evidence="claimed",
        line=call.line if call else None,
        excerpt=call.excerpt if call else "",
    )


def _now_and_then(dossier: Dossier) -> list[Finding]:
    """Calls without own kernels among calls with some. A graph's replays have no launches."""
    calls = [launched for e in dossier.evidence.values() for launched in e.calls_with_own]
    if dossier.on_gpu or all(calls) or not any(calls):
        return []
    text = f"own kernels were launched in {sum(calls)} of {len(calls)} calls"
    return [Finding(id="call_branch", severity="warning", message=text, evidence="claimed")]


def idle_kernels(dossier: Dossier) -> list[Finding]:
    """Own kernels that earn no share."""
    words = {
        "idle": "the answers are right without it",
        "copy": "it only copies what it is given",
    }
    return [
        Finding(
            id="idle_kernel",
            severity="warning",
            message=f"kernel {name} earns no share: {words[kind]}",
            evidence="inside",
        )
        for name, kind in sorted(dossier.idle.items())
    ]


def replayed(trials: Sequence[Trial]) -> list[Finding]:
    """Wrong answers that are earlier ones."""
    stale = [trial for trial in trials if trial.status == "stale_answer"]
    if not stale:
        return []
    text = f"in {len(stale)} calls, first in {stale[0].mode} mode: {stale[0].detail}"
    return [
        Finding(id="replayed_answer", severity="warning", message=text[:500], evidence="outside")
    ]


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
        return _all_in_torch(dossier, study, submission)
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


def _all_in_torch(dossier: Dossier, study: Study, submission: Submission) -> list[Finding]:
    """Nothing heavy in the reference, and all that it computes runs in torch."""
    if not dossier.evidence or not study.operators:
        return []
    for mode, evidence in dossier.evidence.items():
        wanted = computing(study.operators.get(mode, {}))
        if not wanted or not wanted <= computing(evidence.operators):
            return []
    report = analyse(submission.source, submission.entry_point)
    call = report.torch_calls[0] if report.torch_calls else None
    names = ", ".join(sorted({n.removeprefix("aten.") for n in wanted})[:8])
    return [
        Finding(
            id="low_coverage",
            severity="warning",
            message=f"every operator of the reference still runs in torch: {names}",
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
    found += _left_running(dossier)
    found += contradictions_beside(dossier)
    found += shares.suspicious_speedup(dossier)
    if dossier.flooded:
        text = "more evidence was written than is kept"
        found.append(
            Finding(id="evidence_flood", severity="warning", message=text, evidence="outside")
        )
    return found


def _left_running(dossier: Dossier) -> list[Finding]:
    threads, processes = dossier.left_running
    if threads <= 0 and processes <= 0:
        return []
    text = f"a call has left {max(0, threads)} threads and {max(0, processes)} processes running"
    return [Finding(id="left_running", severity="warning", message=text, evidence="claimed")]


def contradictions_beside(dossier: Dossier) -> list[Finding]:
    """Contradictions that the measurement itself has not put on the record."""
    known = dossier.measured.findings
    return [finding for finding in shares.contradictions(dossier) if finding not in known]


def _info(name: str, message: str, *, outside: bool = False) -> Finding:
    return Finding(
        id=name,
        severity="info",
        message=message,
        evidence="outside" if outside else "claimed",
    )
