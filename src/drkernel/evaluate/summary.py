"""What ``drkernel eval`` stores of a run (``eval.json``), and the tables made of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict

from drkernel.evaluate.arrays import Arrays
from drkernel.evaluate.metrics import cost_of, flows_of, rows_of
from drkernel.report.rows import Row, number_text
from drkernel.report.tables import Table

NOT_TIMED = "Nothing was timed in this run, so there is no Fast@p: Triton needs a GPU for that."


class Summary(BaseModel):
    """Numbers of one run."""

    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True)

    policy: str
    """Name of the policy."""
    scripted: bool
    """Whether a script wrote the candidates: then nothing here says anything about a model."""
    digest: str
    """Of the configuration."""
    devices: tuple[str, ...]
    """What candidates ran on."""
    protocol: str
    """How they were compared."""
    baseline: str
    """What speedups are against."""
    tasks: int
    """Number of tasks."""
    samples: int
    """Samples of each."""
    turns: int
    """Turns of each sample."""
    timed: bool
    """Whether anything was timed."""
    unfinished: int = 0
    """Samples of which a resumed run would play more."""
    rows: tuple[Row, ...]
    """Every number."""
    outcomes: tuple[dict[str, int], ...]
    """Verdicts, or what became of turns without one, by turn."""
    flows: tuple[dict[str, Any], ...]
    """Moves between failed, correct and fast, from each turn to the next."""
    cost: dict[str, float | int | None]
    """Tokens, money, evaluations, seconds."""

    @property
    def failed(self) -> bool:
        """Whether the policy or the gym failed every sample."""
        return 0 < self.tasks * self.samples == self.unfinished

    def find(self, metric: str, group: str, turn: str) -> Row | None:
        """One number."""
        for row in self.rows:
            if (row.metric, row.group, row.turn) == (metric, group, turn):
                return row
        return None


def summarise(
    arrays: Arrays,
    groups: Mapping[str, Sequence[str]],
    *,
    policy: str,
    digest: str,
    protocol: str,
    baseline: str,
    thresholds: Sequence[float],
) -> Summary:
    """All numbers of a run."""
    turns = list(arrays.all_turns())
    devices = {turn.result.provenance.device for turn in turns if turn.result is not None}
    return Summary(
        policy=policy,
        scripted=policy.startswith(("teacher", "scripted")),
        digest=digest,
        devices=tuple(sorted(devices)),
        protocol=protocol,
        baseline=baseline,
        tasks=len(arrays.tasks),
        samples=arrays.samples,
        turns=arrays.turns,
        timed=arrays.timed,
        unfinished=arrays.unfinished,
        rows=tuple(rows_of(arrays, groups, thresholds)),
        outcomes=tuple(_outcomes(arrays, index) for index in range(arrays.turns)),
        flows=tuple(flows_of(arrays)),
        cost=cost_of(arrays),
    )


def _outcomes(arrays: Arrays, index: int) -> dict[str, int]:
    counts: dict[str, int] = {}
    for turn in arrays.all_turns(index):
        name = turn.result.outcome.value if turn.result is not None else turn.status
        counts[name] = counts.get(name, 0) + 1
    missing = len(arrays.tasks) * arrays.samples - sum(counts.values())
    if missing:
        counts["not played"] = missing
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def tables_of(summary: Summary) -> list[Table]:
    """By turn, by level, outcomes, cost."""
    last, best = f"turn {summary.turns}", f"best of {summary.turns}"
    columns = [f"turn {turn}" for turn in range(1, summary.turns + 1)]
    columns += [best] if summary.turns > 1 else []
    tables = [_metric_table(summary, columns)]
    groups = list(dict.fromkeys(row.group for row in summary.rows if row.group != "all"))
    if len(groups) > 1:
        tables.append(_group_table(summary, groups, best if summary.turns > 1 else last))
    tables.append(_outcome_table(summary))
    if summary.flows:
        tables.append(_flow_table(summary))
    return [*tables, cost_table({"all": summary.cost}, "Cost")]


def _notes(summary: Summary) -> str:
    notes = [*unfinished_note(summary.unfinished), *([] if summary.timed else [NOT_TIMED])]
    if summary.scripted:
        notes.append("The candidates were written by a script: no figure says anything of a model.")
    return " ".join(notes)


def unfinished_note(count: int) -> list[str]:
    """What must be said of a run that is not over; nothing of one that is."""
    if not count:
        return []
    return [f"{count} samples are not finished and count as failures; --resume goes on with them."]


def _metric_table(summary: Summary, columns: list[str]) -> Table:
    metrics = list(dict.fromkeys(row.metric for row in summary.rows if row.group == "all"))
    rows = []
    for metric in metrics:
        cells = [summary.find(metric, "all", column) for column in columns]
        if not any(_measured(cell) for cell in cells):
            continue
        rows.append((metric, *(cell.text() if cell else "-" for cell in cells)))
    title = (
        f"{summary.policy}: {summary.tasks} tasks x {summary.samples} samples, against"
        f" {summary.baseline}, on {', '.join(summary.devices) or 'nothing'}"
    )
    return Table(title, ("", *columns), tuple(rows), _notes(summary))


def _group_table(summary: Summary, groups: list[str], column: str) -> Table:
    kept = [row for row in summary.rows if row.group in groups and row.turn == column]
    metrics = list(dict.fromkeys(row.metric for row in kept if _measured(row)))
    rows = []
    for group in groups:
        cells = [summary.find(metric, group, column) for metric in metrics]
        count = next((cell.problems for cell in cells if cell), 0)
        rows.append((group, str(count), *(cell.text() if cell else "-" for cell in cells)))
    return Table(f"By group, {column}", ("", "tasks", *metrics), tuple(rows))


def _measured(row: Row | None) -> bool:
    return row is not None and row.value is not None


def _outcome_table(summary: Summary) -> Table:
    names = list(dict.fromkeys(name for counts in summary.outcomes for name in counts))
    rows = [
        (f"turn {index}", *(str(counts.get(name, 0)) for name in names))
        for index, counts in enumerate(summary.outcomes, 1)
    ]
    return Table("Outcomes", ("", *names), tuple(rows))


def _flow_table(summary: Summary) -> Table:
    """Who got better and who got worse between turns: failed, correct, fast (1.2)."""
    rows = [
        (
            f"turn {flow['from_turn']} to {flow['from_turn'] + 1}",
            number_text(flow["improved"]),
            number_text(flow["regressed"]),
        )
        for flow in summary.flows
    ]
    note = "" if summary.timed else "Between failed and correct only: nothing was timed."
    return Table(
        "Moves between turns, share of samples", ("", "better", "worse"), tuple(rows), note
    )


def cost_table(costs: Mapping[str, Mapping[str, float | int | None]], title: str) -> Table:
    """What runs, or arms of one, cost; a column each."""
    names = dict.fromkeys(name for cost in costs.values() for name in cost)
    rows = tuple(
        (name.replace("_", " "), *(_cost_cell(cost.get(name)) for cost in costs.values()))
        for name in names
    )
    return Table(title, ("", *costs), rows)


def _cost_cell(value: float | int | None) -> str:
    return "unknown" if value is None else f"{value:,}"
