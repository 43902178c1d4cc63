"""One result as text: a headline, a row for each stage, what went wrong, the verdict.

`report_of` makes data out of an `EvalResult`; `lines_of` lays it out. Nothing here decides
anything: what is not in the result is said to be missing, with the result's own reason.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kernelgym.report.printable import gist, one_line, printable
from kernelgym.schema import EvalResult, Failure, Finding, KernelRecord, Outcome, Profile, Trial

OK, BAD, NOTE, OFF = "ok", "bad", "note", "off"
"""Tones of a row: passed, failed, worth a look, not measured."""

_TRACEBACK_LINES = 12


@dataclass(frozen=True)
class Row:
    """One stage: what it is, how it went in a word or two, and the facts."""

    label: str
    status: str
    facts: str
    tone: str


@dataclass(frozen=True)
class Report:
    """Everything a person is told about a result."""

    headline: tuple[str, ...]
    rows: tuple[Row, ...]
    details: tuple[str, ...]
    """Lines about the failure: message, source line, end of the traceback."""
    outcome: Outcome
    summary: tuple[str, ...]
    """What stands beside the outcome on the last line."""


def report_of(result: EvalResult, command: str = "") -> Report:
    """The report on a result; ``command`` is how it was asked for, for the line that says next."""
    rows = [_compile_row(result), _correctness_row(result), *_hack_rows(result)]
    rows += [_timing_row(result), _profile_row(result)]
    return Report(
        headline=_headline(result),
        rows=tuple(row for row in rows if row is not None),
        details=tuple(_details(result.failure)) if _adds_to_rows(result) else (),
        outcome=result.outcome,
        summary=(
            f"source {result.provenance.source_hash[:12] or 'unknown'}",
            f"{result.provenance.wall_seconds:.2f} s",
            f"next: {_next(result, command)}",
        ),
    )


def lines_of(report: Report) -> list[tuple[str, str]]:
    """The report as lines, each with its tone."""
    lines = [("   ".join(report.headline), "head")]
    label = max((len(row.label) for row in report.rows), default=0)
    status = max((len(row.status) for row in report.rows), default=0)
    lines += [
        (f"  {row.label:<{label}}  {row.status:<{status}}  {row.facts}".rstrip(), row.tone)
        for row in report.rows
    ]
    lines += [(f"    {line}", BAD) for line in report.details]
    tone = OK if report.outcome is Outcome.CORRECT else BAD
    lines.append(("   ".join((report.outcome.value, *report.summary)), tone))
    return lines


def _headline(result: EvalResult) -> tuple[str, ...]:
    facts = result.provenance
    jail = f"jail {facts.jail}"
    if facts.jail_missing:
        jail += f" without {', '.join(facts.jail_missing)}"
    if result.outcome is Outcome.INFRASTRUCTURE and facts.jail == "none":
        jail = "nothing judged"  # the reference had its jail; there is no candidate to speak of
    device = facts.device
    if facts.device == "cpu":
        device = "CPU, Triton's interpreter" if result.backend == "triton" else "CPU"
    protocol = f"{facts.protocol}, {facts.precision}"
    return (one_line(result.task), one_line(result.backend, 40), one_line(device), protocol, jail)


def _compile_row(result: EvalResult) -> Row | None:
    failure = result.failure
    if failure and failure.stage in ("parse", "load", "build", "compile"):
        status = "failed"
        return Row(failure.stage, status, gist(failure.message or failure.code), BAD)
    if result.outcome is Outcome.COMPILE_ERROR and failure:
        return Row("compile", "failed", gist(failure.message or failure.code), BAD)
    compiled = result.profile.compiled if result.profile else ()
    if not compiled:
        return None
    targets = ", ".join(sorted({kernel.target for kernel in compiled if kernel.target}))
    facts = "; ".join(_resources(kernel) for kernel in _worst_of_each(compiled))
    return Row("compile", "ok", f"{targets}: {facts}" if targets else facts, OK)


def _worst_of_each(kernels: Iterable[KernelRecord]) -> list[KernelRecord]:
    """For each name, the record with most registers (several targets or specialisations)."""
    worst: dict[str, KernelRecord] = {}
    for kernel in kernels:
        seen = worst.get(kernel.name)
        if seen is None or (kernel.registers or 0) > (seen.registers or 0):
            worst[kernel.name] = kernel
    return list(worst.values())


def _resources(kernel: KernelRecord) -> str:
    parts = [one_line(kernel.name, 60)]
    if kernel.registers is not None:
        parts.append(f"{kernel.registers} registers")
    if kernel.shared_bytes is not None:
        parts.append(f"{kernel.shared_bytes:,} B shared")
    if kernel.spill_bytes is not None:
        parts.append(f"{kernel.spill_bytes:,} B spilled" if kernel.spill_bytes else "no spills")
    return " ".join(parts[:2]) + "".join(f", {part}" for part in parts[2:])


def _correctness_row(result: EvalResult) -> Row | None:
    if not result.trials:
        return None
    passed = sum(trial.passed for trial in result.trials)
    count = f"{passed}/{len(result.trials)}"
    failed = next((trial for trial in result.trials if not trial.passed), None)
    modes = " and ".join(dict.fromkeys(trial.mode for trial in result.trials))
    if failed is None:
        return Row(
            "correctness", count, f"{_errors(result.trials)}, fresh inputs, {modes} mode", OK
        )
    facts = f"{failed.status} in {failed.mode} trial {failed.index}"
    if failed.detail:
        facts += f": {one_line(failed.detail)}"
    return Row("correctness", count, facts, BAD)


def _errors(trials: Iterable[Trial]) -> str:
    known = [trial for trial in trials if trial.max_abs_error is not None]
    worst = max(known, key=lambda trial: trial.max_abs_error or 0.0, default=None)
    if worst is None or worst.max_abs_error is None:
        return "equal"
    if not worst.max_abs_error:
        return "equal"
    text = f"max abs error {worst.max_abs_error:.1e}"
    ratios = [trial.worst_ratio for trial in known if trial.worst_ratio is not None]
    return text + (f" ({100 * max(ratios):.2g}% of what is allowed)" if ratios else "")


def _hack_rows(result: EvalResult) -> list[Row]:
    hacks = [finding for finding in result.findings if finding.severity == "hack"]
    rows = [Row("hack", finding.id, _finding(finding), BAD) for finding in hacks]
    if not rows and result.trials:
        rows = [Row("hacks", "none", "", OK)]
    others = [finding for finding in result.findings if finding.severity != "hack"]
    return rows + [Row(finding.severity, finding.id, _finding(finding), NOTE) for finding in others]


def _finding(finding: Finding) -> str:
    text = one_line(finding.message, 240)
    if finding.line is not None:
        text += f" [line {finding.line}: {one_line(finding.excerpt, 80)}]"
    return f"{text} ({finding.evidence})"


def _timing_row(result: EvalResult) -> Row | None:
    if result.speedup is None or result.reference_ms is None or result.kernel_ms is None:
        reason = result.not_measured.get("speedup") if result.correct else None
        return Row("timing", "off", one_line(reason), OFF) if reason else None
    low, high = result.speedup_interval or (result.speedup, result.speedup)
    modes = " and ".join(timing.mode for timing in result.timings)
    pairs = sum(timing.pairs for timing in result.timings)
    on_cpu = any(timing.clock == "cpu" for timing in result.timings)
    how = "processor time (claimed)" if on_cpu else "cold L2"
    facts = (
        f"[{low:.2f}, {high:.2f}]   {result.kernel_ms:.3f} ms vs {result.reference_ms:.3f} ms,"
        f" {pairs} pairs, {how}, {modes} mode"
    )
    return Row("timing", f"{result.speedup:.2f}x", facts, OK)


def _profile_row(result: EvalResult) -> Row | None:
    profile = result.profile
    if result.coverage is not None and profile is not None:
        on_cpu = any(timing.clock == "cpu" for timing in result.timings)
        whose = "a call's time (claimed)" if on_cpu else "the GPU's time"
        facts = f"own kernels take {100 * result.coverage:.0f}% of {whose}"
        if result.displaced is not None:
            facts += f", displace {100 * result.displaced:.0f}% of the reference's"
        foreign = next((kernel for kernel in profile.kernels if not kernel.own), None)
        if foreign is not None and foreign.share is not None:
            facts += f"; next target: {one_line(foreign.name, 60)} {100 * foreign.share:.0f}%"
        return Row("profile", "ok", facts, OK)
    launches = _launches(profile) if profile else ""
    reason = one_line(result.not_measured.get("coverage", "")) if result.correct else ""
    if launches:
        return Row("launches", "seen", launches + (f"; coverage: {reason}" if reason else ""), OK)
    return Row("profile", "off", reason, OFF) if reason else None


def _launches(profile: Profile) -> str:
    own = [kernel for kernel in profile.kernels if kernel.own]
    eval_mode = [kernel for kernel in own if kernel.mode in (None, "eval")] or own
    return ", ".join(
        one_line(kernel.name, 60)
        + (f" x{kernel.calls}" if kernel.calls > 1 else "")
        + (f" grid {'x'.join(map(str, kernel.grid))}" if kernel.grid else "")
        for kernel in eval_mode[:6]
    )


def _details(failure: Failure | None) -> Iterable[str]:
    if failure is None:
        return
    where = f"{failure.stage}/{failure.code}"
    kind = f" {failure.type}:" if failure.type else ""
    first, *rest = printable(failure.message).splitlines() or [""]
    yield f"{where}:{kind} {first}".rstrip()
    yield from (f"  {line}" for line in rest[:_TRACEBACK_LINES])
    if failure.line is not None:
        yield f"line {failure.line}:"
    yield from (f"  {line}" for line in printable(failure.excerpt).splitlines())
    yield from (
        f"  {line}" for line in printable(failure.traceback).splitlines()[-_TRACEBACK_LINES:]
    )


def _adds_to_rows(result: EvalResult) -> bool:
    """Whether the failure says more than the row of a hack already does."""
    hacks = {finding.id for finding in result.findings if finding.severity == "hack"}
    return result.failure is not None and result.failure.code not in hacks


def _next(result: EvalResult, command: str) -> str:
    if result.outcome is Outcome.INFRASTRUCTURE:
        code = result.failure.code if result.failure else ""
        if code.startswith("reference_"):
            return "mend the reference; the candidate was not judged"
        if code == "sandbox_failed":
            return "kernelgym doctor; or accept a weaker jail: kernelgym eval ... --jail L0"
        return "kernelgym doctor"
    return f"{command} --json" if command else "--json for the record"
