"""Figures of test-time scaling. Each function returns the figure and the table that it shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drkernel.report.style import COLOURS, MARKS, new_figure
from drkernel.report.tables import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from drkernel.scale.summary import ScaleSummary


def arms_by_turn(summary: ScaleSummary) -> tuple[Figure, Table]:
    """The good candidates by turn: of the turn itself, and the best so far, by arm."""
    figure, axes = new_figure(
        f"{summary.policy}: {summary.good} by turn (higher is better)",
        "turn",
        f"{summary.good}, share of sequences",
        note=_note(summary),
    )
    rows: list[tuple[str, ...]] = []
    turns = range(1, summary.turns + 1)
    sequential = [arm for arm in summary.costs if arm != "parallel"]
    for index, arm in enumerate(sequential):
        for best in (False, True):
            label = f"{arm}, best so far" if best else arm
            points = []
            for turn in turns:
                where = f"best of {turn}" if best and turn > 1 else f"turn {turn}"
                row = summary.find(arm, summary.good, where)
                if row is not None and row.value is not None:
                    points.append((turn, row.value))
                    ends = ["" if end is None else f"{end:.6g}" for end in (row.low, row.high)]
                    rows.append((label, str(turn), f"{row.value:.6g}", *ends))
            axes.plot(
                [turn for turn, _ in points],
                [value for _, value in points],
                linestyle="--" if best else "-",
                marker=MARKS[index],
                markersize=4,
                color=COLOURS[index],
                label=label,
            )
    axes.set_ylim(0, 1)
    axes.legend(fontsize=7)
    return figure, Table("", ("series", "turn", "value", "low", "high"), tuple(rows))


def budget_curves(summary: ScaleSummary, unit: str) -> tuple[Figure, Table]:
    """Best so far against what was spent on a sequence."""
    figure, axes = new_figure(
        f"{summary.policy}: best so far by {unit} (higher is better)",
        f"{unit} of one sequence",
        f"{summary.good}, best so far",
        note=_note(summary),
    )
    rows: list[tuple[str, ...]] = []
    curves = [curve for curve in summary.curves if curve["unit"] == unit]
    for index, curve in enumerate(curves):
        axes.plot(
            curve["budgets"], curve["values"], color=COLOURS[index % len(COLOURS)],
            marker=MARKS[index % len(MARKS)], markersize=4, label=curve["arm"],
        )  # fmt: skip
        rows += [
            (curve["arm"], f"{budget:g}", f"{value:.6g}")
            for budget, value in zip(curve["budgets"], curve["values"], strict=True)
        ]
    if unit == "tokens" and curves:
        axes.set_xscale("log")
    axes.set_ylim(0, 1)
    axes.legend(fontsize=7)
    return figure, Table("", ("arm", unit, "value"), tuple(rows))


def _note(summary: ScaleSummary) -> str:
    parts = [
        f"n = {summary.tasks} tasks x {summary.samples} sequences",
        ", ".join(summary.devices) or "no device",
    ]
    return "; ".join([*parts, *(["scripted policy: plumbing only"] if summary.scripted else [])])
