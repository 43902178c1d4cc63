"""``kernelgym hacks``: what the judge looks for, and why a result says what it says."""

from __future__ import annotations

import json as json_module
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from pydantic import ValidationError

from kernelgym.cli.options import Json
from kernelgym.errors import UsageError
from kernelgym.judge.catalogue import CATALOGUE, Entry
from kernelgym.report.table import table
from kernelgym.schema import EvalResult, Finding, Outcome
from kernelgym.tasks.nearest import did_you_mean

_SEVERITY = {
    "hack": "hack: decides the outcome",
    "warning": "finding: decides nothing",
    "info": "remark",
    "wrong": "wrong answer: the outcome is mismatch",
}


def hacks(what: str = "", /, *, json: Json = False) -> int:
    """Say what the judge looks for, or explain one finding or one result.

    Parameters
    ----------
    what
        Id of a finding (no_own_kernel, stale_answer, ...), or a file with a result as JSON (from
        kernelgym eval --json). Nothing: the list.
    """
    if not what:
        return _list(json=json)
    if what in CATALOGUE:
        return _explain(CATALOGUE[what], json=json)
    path = Path(what)
    if path.suffix == ".json" or path.is_file():
        return _explain_result(_read(path), json=json)
    raise UsageError(
        f"no finding {what!r}{did_you_mean(what, CATALOGUE)}, and no such file",
        hint="kernelgym hacks",
    )


def _list(*, json: bool) -> int:
    if json:
        print(json_module.dumps([asdict(entry) for entry in CATALOGUE.values()], indent=2))
        return 0
    rows = [(e.id, e.severity, e.confidence, e.sentence) for e in CATALOGUE.values()]
    print("\n".join(table(("id", "kind", "confidence", "what was seen"), rows, width=140)))
    return 0


def _explain(entry: Entry, *, json: bool) -> int:
    if json:
        print(json_module.dumps(asdict(entry), indent=2))
        return 0
    print(f"{entry.id}  ({_SEVERITY[entry.severity]}; confidence: {entry.confidence})")
    print(f"  {entry.sentence}")
    print(f"  What to do: {entry.advice}")
    return 0


def _read(path: Path) -> EvalResult:
    try:
        data = json_module.loads(path.read_text(encoding="utf-8"))
        return EvalResult.model_validate(data.get("result", data))
    except OSError as error:
        raise UsageError(
            f"cannot read {path}: {error.strerror}", hint="kernelgym eval ... --json > result.json"
        ) from error
    except (ValueError, AttributeError, ValidationError) as error:
        raise UsageError(
            f"{path} holds no result of an evaluation",
            hint="kernelgym eval ... --json > result.json",
        ) from error


def _explain_result(result: EvalResult, *, json: bool) -> int:
    if json:
        found = [f.model_dump() | {"entry": _entry_of(f.id)} for f in result.findings]
        print(json_module.dumps({"outcome": result.outcome.value, "findings": found}, indent=2))
        return 0
    print("\n".join(_lines(result)))
    return 0


def _entry_of(identifier: str) -> dict[str, str] | None:
    entry = CATALOGUE.get(identifier)
    return None if entry is None else asdict(entry)


def _lines(result: EvalResult) -> Iterator[str]:
    yield f"{result.task}: {result.outcome.value}"
    if result.outcome is not Outcome.CORRECT and result.failure is not None:
        yield f"  {result.failure.code}: {result.failure.message}"
        entry = CATALOGUE.get(result.failure.code)
        if entry is not None:
            yield f"  What to do: {entry.advice}"
    accusing = [finding for finding in result.findings if finding.severity == "hack"]
    others = [finding for finding in result.findings if finding.severity == "warning"]
    if not accusing and not others:
        yield "  nothing suspicious was seen"
    for finding in (*accusing, *others):
        yield from _finding_lines(finding)


def _finding_lines(finding: Finding) -> Iterator[str]:
    entry = CATALOGUE.get(finding.id)
    sure = finding.confidence or (entry.confidence if entry else "")
    yield ""
    yield f"{finding.id}  ({finding.severity}; confidence: {sure}; known: {finding.evidence})"
    yield f"  {finding.message}"
    if finding.line is not None:
        yield f"  line {finding.line}: {finding.excerpt}"
    if entry is not None:
        yield f"  {entry.sentence}"
        yield f"  What to do: {entry.advice}"
