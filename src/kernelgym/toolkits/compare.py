"""Toolkit ``compare``: do candidates agree, on fresh inputs, where there is no reference?

Each candidate takes the place of the reference once, in the judge's jailed process, and all others
are compared with it. Two candidates agree only if each accepts the other: one that interferes with
the process it is the reference in cannot touch the one where it is the candidate. Agreement says
that two answers are alike, never that they are right.

Not covered: candidates that need Triton's interpreter. The reference's place has none, so without
a GPU this works for backends that run there, and says so for the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict

from kernelgym.errors import UsageError
from kernelgym.schema import EvalResult, Outcome, Precision, Submission, Task
from kernelgym.toolkits.simple import Evaluator

Relation = Literal["agree", "disagree", "failed"]


class Candidate(BaseModel):
    """One of the sources to be compared."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str
    backend: str = "torch"
    entry_point: str = "ModelNew"


class Comparison(BaseModel):
    """Two candidates."""

    model_config = ConfigDict(frozen=True)

    left: str
    right: str
    relation: Relation
    """``failed`` where one of them did not get as far as an answer."""
    max_rel_error: float | None = None
    """Largest difference in units of the answer's root mean square."""
    reason: str = ""
    """Why they do not agree."""


class CompareResult(BaseModel):
    """All pairs, and the groups of candidates that agree with each other."""

    model_config = ConfigDict(frozen=True)

    pairs: tuple[Comparison, ...]
    groups: tuple[tuple[str, ...], ...]
    """Largest first. Every member agrees with every other; a loner has a group of its own."""


async def compare(
    host: Evaluator,
    candidates: Mapping[str, Candidate],
    inputs: str,
    *,
    precision: Precision = "fp32",
    trials: int = 5,
    timeout_s: float = 60.0,
) -> CompareResult:
    """Compare every pair. ``inputs`` is source that defines ``get_inputs`` (and, where the
    candidates take constructor arguments, ``get_init_inputs``)."""
    if len(candidates) < 2:
        raise UsageError("comparing takes at least two candidates", hint="")
    names = list(candidates)
    verdicts: dict[tuple[str, str], EvalResult] = {}
    for reference in names:
        for other in names:
            if reference != other:
                submission = Submission(
                    task=_task(reference, candidates[reference], inputs),
                    source=candidates[other].source,
                    backend=candidates[other].backend,
                    entry_point=candidates[other].entry_point,
                    precision=precision,
                    trials=trials,
                    timeout_s=timeout_s,
                )
                verdicts[reference, other] = await host.evaluate(submission)
    pairs = [
        _relate(left, right, verdicts[left, right], verdicts[right, left])
        for index, left in enumerate(names)
        for right in names[index + 1 :]
    ]
    return CompareResult(pairs=tuple(pairs), groups=_groups(names, pairs))


def _task(name: str, candidate: Candidate, inputs: str) -> Task:
    """The candidate as a reference, with the inputs behind it so that they win."""
    return Task(
        name=name[:200],
        reference=f"{candidate.source.rstrip()}\n\n\n{inputs.strip()}\n",
        entry_point=candidate.entry_point,
        origin="compare",
    )


def _relate(left: str, right: str, first: EvalResult, second: EvalResult) -> Comparison:
    results = (first, second)
    errors = [t.max_rel_error for r in results for t in r.trials if t.max_rel_error is not None]
    relation: Relation = "agree"
    if any(r.outcome not in (Outcome.CORRECT, Outcome.MISMATCH) for r in results):
        relation = "failed"
    elif any(r.outcome is Outcome.MISMATCH for r in results):
        relation = "disagree"
    worst = next((r for r in results if not r.correct), None)
    reason = worst.failure.message if worst is not None and worst.failure is not None else ""
    return Comparison(
        left=left,
        right=right,
        relation=relation,
        max_rel_error=max(errors, default=None),
        reason=reason,
    )


def _groups(names: list[str], pairs: list[Comparison]) -> tuple[tuple[str, ...], ...]:
    """Candidates in order join the first group all of whose members they agree with.

    Agreement within a tolerance is not transitive, so this is a choice; it depends on the order of
    the candidates and on nothing else.
    """
    agreeing = {frozenset((p.left, p.right)) for p in pairs if p.relation == "agree"}
    groups: list[list[str]] = []
    for name in names:
        for group in groups:
            if all(frozenset((name, member)) in agreeing for member in group):
                group.append(name)
                break
        else:
            groups.append([name])
    return tuple(tuple(group) for group in sorted(groups, key=len, reverse=True))
