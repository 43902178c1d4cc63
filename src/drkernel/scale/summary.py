"""What ``drkernel scale`` stores (``scale.json``), and the tables made of it."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

from drkernel.evaluate.summary import NOT_TIMED, cost_table, unfinished_note
from drkernel.report.rows import Row, number_text
from drkernel.report.tables import Table

NOT_COMPARED = (
    "No candidate could be compared with another, so every rule takes the last one: for Triton "
    "that needs a GPU."
)


class Choice(BaseModel):
    """What a rule without an oracle is worth."""

    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True)

    rule: str
    """Name of the rule."""
    value: float
    """Share of sequences whose chosen candidate is good."""
    closed: float | None
    """Share of the gap from last to best that it closes."""


class ScaleSummary(BaseModel):
    """Numbers of one scaling run."""

    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True)

    policy: str
    """Name of the policy."""
    scripted: bool
    """Whether a script wrote the candidates."""
    digest: str
    """Of the configuration."""
    devices: tuple[str, ...]
    """What candidates ran on."""
    tasks: int
    samples: int
    turns: int
    timed: bool
    """Whether anything was timed."""
    unfinished: int = 0
    """Sequences, over all arms, of which a resumed run would play more."""
    good: str
    """What budgets and choices count: ``fast@1.2``, or ``correct`` where nothing was timed."""
    rows: tuple[Row, ...]
    """By arm, metric and turn; ``verified`` rows are the figures of record."""
    curves: tuple[dict[str, Any], ...]
    """Best so far by evaluations and by tokens."""
    gains: dict[str, list[dict[str, Any]]]
    """By arm: sequences by the state of their first turn."""
    choices: tuple[Choice, ...]
    """Rules without an oracle; empty where none was tried."""
    compared: int = 0
    """Comparisons of candidates with each other that the rules go by."""
    costs: dict[str, dict[str, float | int | None]]
    """By arm, common first turns included in each."""

    @property
    def failed(self) -> bool:
        """Whether the policy or the gym failed every sequence of every arm."""
        return 0 < self.tasks * self.samples * len(self.costs) == self.unfinished

    def find(self, run: str, metric: str, turn: str) -> Row | None:
        """One number."""
        for row in self.rows:
            if (row.run, row.metric, row.turn) == (run, metric, turn):
                return row
        return None


def tables_of(summary: ScaleSummary) -> list[Table]:
    """Arms, budgets, gains, choices, cost."""
    tables = [_arm_table(summary), _evaluations_table(summary)]
    tables += [_gain_table(arm, gains) for arm, gains in summary.gains.items() if gains]
    if summary.choices:
        tables.append(_choice_table(summary))
    return [*tables, cost_table(summary.costs, "Cost by arm, common first turns in each")]


def _arm_table(summary: ScaleSummary) -> Table:
    arms = list(summary.costs)
    last = f"turn {summary.turns}"
    best = f"best of {summary.turns}"
    wanted = [("correct", last), ("correct", best)]
    metrics = list(dict.fromkeys(row.metric for row in summary.rows if "@" in row.metric))
    for metric in metrics if summary.timed else ():
        wanted += [(metric, last), (metric, best)]
    verified = [row.metric for row in summary.rows if row.turn == "verified"]
    wanted += [(metric, "verified") for metric in dict.fromkeys(verified)]
    rows = []
    for metric, turn in wanted:
        cells = [summary.find(arm, metric, turn) for arm in arms]
        if not any(cell is not None and cell.value is not None for cell in cells):
            continue
        rows.append((f"{metric}, {turn}", *(cell.text() if cell else "-" for cell in cells)))
    title = (
        f"{summary.policy}: {summary.tasks} tasks x {summary.samples} sequences of"
        f" {summary.turns} turns, on {', '.join(summary.devices) or 'nothing'}"
    )
    notes = [*unfinished_note(summary.unfinished), *([] if summary.timed else [NOT_TIMED])]
    if summary.scripted:
        notes.append("The candidates were written by a script: no figure says anything of a model.")
    return Table(title, ("", *arms), tuple(rows), " ".join(notes))


def _evaluations_table(summary: ScaleSummary) -> Table:
    curves = [curve for curve in summary.curves if curve["unit"] == "evaluations"]
    rows = [
        (str(turn + 1), *(f"{curve['values'][turn]:.3f}" for curve in curves))
        for turn in range(summary.turns)
    ]
    head = ("evaluations", *(curve["arm"] for curve in curves))
    return Table(f"Best so far ({summary.good}) by evaluations", head, tuple(rows))


def _gain_table(arm: str, gains: list[dict[str, Any]]) -> Table:
    head = ("first turn", "sequences", "ever correct", "improved", "first speedup", "best speedup")
    rows = [
        (
            gain["state"],
            str(gain["sequences"]),
            *(
                number_text(gain[name])
                for name in ("correct", "improved", "first_speedup", "best_speedup")
            ),
        )
        for gain in gains
    ]
    return Table(f"Gain by the first turn, arm {arm}", head, tuple(rows))


def _choice_table(summary: ScaleSummary) -> Table:
    rows = [
        (one.rule, f"{one.value:.3f}", "-" if one.closed is None else f"{one.closed:.2f}")
        for one in summary.choices
    ]
    note = "" if summary.compared else NOT_COMPARED
    head = ("rule", summary.good, "gap closed")
    return Table("Choosing without an oracle", head, tuple(rows), note)
