"""Runs side by side on the tasks that they share: differences with intervals, paired by task.

Pairing takes out how hard the tasks are. A difference is only shown where both runs measured the
number; what the runs cost stands beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from drkernel.algo import PairedDifference, fast_samples, paired_difference
from drkernel.evaluate.arrays import Arrays
from drkernel.evaluate.metrics import cost_of
from drkernel.evaluate.stored import StoredEvaluation
from drkernel.report.rows import number_text
from drkernel.report.tables import Table
from kernelgym.errors import UsageError


@dataclass(frozen=True)
class Compared:
    """One metric of two runs."""

    metric: str
    turn: str
    first: float
    second: float
    difference: PairedDifference


def shared_tasks(runs: Sequence[StoredEvaluation]) -> list[str]:
    """Names of the tasks that all runs have, with the same reference."""
    first = runs[0].tasks
    return [
        name
        for name, task in first.items()
        if all(
            name in run.tasks and run.tasks[name].content_hash == task.content_hash for run in runs
        )
    ]


def compare(
    first: StoredEvaluation, second: StoredEvaluation, thresholds: Sequence[float]
) -> list[Compared]:
    """``second`` against ``first``, at the last turn and best so far."""
    names = shared_tasks([first, second])
    if not names:
        raise UsageError(f"{first.path} and {second.path} share no task")
    left, right = first.arrays().of(names), second.arrays().of(names)
    found = [_one("correct", left, right, 0.0, best=best) for best in (False, True)]
    if left.timed and right.timed:
        found += [
            _one(f"fast@{p:g}", left, right, p, best=best)
            for p in thresholds
            for best in (False, True)
        ]
    return found


def _one(metric: str, left: Arrays, right: Arrays, p: float, *, best: bool) -> Compared:
    tables = []
    for arrays in (left, right):
        values = arrays.correct if metric == "correct" else arrays.speedups
        tables.append(fast_samples(values, p, best_of=arrays.turns if best else None))
    difference = paired_difference(tables[0], tables[1])
    return Compared(
        metric,
        "best so far" if best else "last turn",
        float(tables[0].mean()),
        float(tables[1].mean()),
        difference,
    )


def comparison_tables(
    runs: Sequence[StoredEvaluation], thresholds: Sequence[float] = (1.0, 1.2, 1.5, 2.0)
) -> list[Table]:
    """Every further run against the first, and what each cost."""
    first, *others = _two_or_more(runs)
    tables = []
    for other in others:
        found = compare(first, other, thresholds)
        rows = [
            (
                f"{one.metric}, {one.turn}",
                f"{one.first:.3f}",
                f"{one.second:.3f}",
                number_text(one.difference.difference, *one.difference.interval),
                f"{one.difference.p_value:.4f}",
            )
            for one in found
        ]
        title = (
            f"{other.name} ({other.policy}) against {first.name} ({first.policy}),"
            f" {len(shared_tasks([first, other]))} shared tasks"
        )
        head = ("", first.name, other.name, "difference", "p")
        tables.append(Table(title, head, tuple(rows), _warning(first, other)))
    return [*tables, _cost(runs)]


def differences(
    runs: Sequence[StoredEvaluation], thresholds: Sequence[float]
) -> list[dict[str, Any]]:
    """The same numbers for programs, an entry for every further run."""
    first, *others = _two_or_more(runs)
    return [
        {
            "run": str(other.path),
            "against": str(first.path),
            "tasks": len(shared_tasks([first, other])),
            "metrics": [asdict(one) for one in compare(first, other, thresholds)],
            "warning": _warning(first, other),
        }
        for other in others
    ]


def _two_or_more(runs: Sequence[StoredEvaluation]) -> Sequence[StoredEvaluation]:
    if len(runs) < 2:
        raise UsageError("a comparison takes two runs or more", hint="drkernel compare RUN RUN")
    return runs


def _warning(first: StoredEvaluation, second: StoredEvaluation) -> str:
    """What makes two runs hard to compare."""
    a, b = first.settings.episode, second.settings.episode
    said = [
        f"{name} differs: {left} and {right}"
        for name, left, right in (
            ("turns", a.turns, b.turns),
            ("samples", first.settings.samples, second.settings.samples),
            ("protocol", a.judging.protocol, b.judging.protocol),
            ("baseline", a.judging.baseline, b.judging.baseline),
            ("backend", a.judging.backend, b.judging.backend),
            ("temperature", a.sampling.temperature, b.sampling.temperature),
        )
        if left != right
    ]
    return "; ".join(said)


def _cost(runs: Sequence[StoredEvaluation]) -> Table:
    costs = [cost_of(run.arrays()) for run in runs]
    rows = tuple(
        (
            name.replace("_", " "),
            *("unknown" if (value := cost[name]) is None else f"{value:,}" for cost in costs),
        )
        for name in costs[0]
    )
    return Table("Cost, all tasks", ("", *(run.name for run in runs)), rows)
