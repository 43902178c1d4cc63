"""Which tasks to train on, decided before training: plain records and filters on them.

A record holds what is known of a task without its source: how many operators, what kind of work,
how often a model solved it. `curation_running` keeps them up to date during training,
`curation_schedule` draws from them. Imports no torch.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from kernelgym.errors import UsageError
from kernelgym.schema import Task


@dataclass(frozen=True)
class TaskFacts:
    """What is known of one task; one row of a table."""

    task: str
    """Name of the task."""
    task_hash: str = ""
    """Content hash, so that a record is not used for another task of the same name."""
    category: str = ""
    """Kind of work."""
    operators: int = 0
    """Number of primitive operators: the difficulty of a synthetic task."""
    split: str = ""
    """``train``, ``validation`` or ``test``, where it is known."""
    source: str = ""
    """Where it comes from, for mixing."""
    attempts: float = 0.0
    """Rollouts seen; older ones count less once they fade."""
    solved: float = 0.0
    """Of these, correct."""
    flat_groups: int = 0
    """Groups in a row whose rewards did not differ: nothing to learn from."""
    groups: int = 0
    """Groups seen."""
    target_share: float | None = None
    """Share of the reference's run time that the operator to be replaced takes."""

    @property
    def pass_rate(self) -> float | None:
        """Share of rollouts that were correct; None before the first."""
        return self.solved / self.attempts if self.attempts else None


def facts_of(task: Task) -> TaskFacts:
    """A first record, from the labels of a task."""
    operators = task.labels.get("operators") or task.labels.get("ops") or ""
    difficulty = task.labels.get("difficulty", "")
    count = int(difficulty) if difficulty.isdecimal() else len(operators.split())
    return TaskFacts(
        task=task.name,
        task_hash=task.content_hash,
        category=task.labels.get("category", ""),
        operators=count,
        split=task.labels.get("split", ""),
        source=task.origin,
    )


def select(
    facts: Iterable[TaskFacts],
    *,
    operators: range | None = None,
    categories: frozenset[str] | None = None,
    split: str | None = None,
    pass_rate: tuple[float, float] | None = None,
    unknown_pass_rate: bool = True,
    least_attempts: float = 0.0,
) -> list[TaskFacts]:
    """Records that meet every condition that is given.

    ``pass_rate`` is a closed interval; a task with fewer than ``least_attempts`` rollouts, or none,
    has an unknown rate and is kept exactly if ``unknown_pass_rate`` says so.
    """

    def wanted(fact: TaskFacts) -> bool:
        if operators is not None and fact.operators not in operators:
            return False
        if categories is not None and fact.category not in categories:
            return False
        if split is not None and fact.split != split:
            return False
        if pass_rate is None:
            return True
        rate = fact.pass_rate
        if rate is None or fact.attempts < least_attempts:
            return unknown_pass_rate
        return pass_rate[0] <= rate <= pass_rate[1]

    return [fact for fact in facts if wanted(fact)]


def with_results(
    facts: Iterable[TaskFacts], results: Mapping[str, tuple[int, int]]
) -> list[TaskFacts]:
    """Records with ``(solved, attempts)`` of a finished evaluation put in, by name of the task."""
    return [
        replace(fact, solved=float(results[fact.task][0]), attempts=float(results[fact.task][1]))
        if fact.task in results
        else fact
        for fact in facts
    ]


# --- files ----------------------------------------------------------------------------------------


def write_facts(facts: Iterable[TaskFacts], path: Path) -> None:
    """A table: ``.parquet`` (extra ``data``), or JSON lines under any other name."""
    rows = [asdict(fact) for fact in facts]
    if path.suffix == ".parquet":
        pyarrow = _pyarrow()
        columns = {f.name: [row[f.name] for row in rows] for f in fields(TaskFacts)}
        schema = pyarrow.schema(
            [(f.name, _column_type(pyarrow, f.name)) for f in fields(TaskFacts)]
        )
        from pyarrow.parquet import write_table

        write_table(pyarrow.table(columns, schema=schema), path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def read_facts(path: Path) -> list[TaskFacts]:
    """What `write_facts` wrote."""
    try:
        return [TaskFacts(**row) for row in _rows(path)]
    except (OSError, TypeError, ValueError) as error:
        raise UsageError(f"{path} holds no curation records: {error}", hint="") from error


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    if path.suffix == ".parquet":
        _pyarrow()
        from pyarrow.parquet import read_table

        yield from read_table(path).to_pylist()
    else:
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.strip():
                yield json.loads(line)


def _pyarrow() -> Any:
    try:
        import pyarrow
    except ImportError as error:
        raise UsageError(
            "Parquet needs pyarrow", hint="pip install 'drkernel[data]', or use .jsonl"
        ) from error
    return pyarrow


def _column_type(pyarrow: Any, name: str) -> Any:
    kind = {f.name: str(f.type) for f in fields(TaskFacts)}[name]
    if kind == "str":
        return pyarrow.string()
    return pyarrow.int64() if kind == "int" else pyarrow.float64()
