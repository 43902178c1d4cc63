"""Figures of an evaluation. Each function returns the figure and the table that it shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from drkernel.algo import fast_at_p
from drkernel.report.style import COLOURS, MARKS, new_figure
from drkernel.report.tables import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from drkernel.evaluate.arrays import Arrays
    from drkernel.evaluate.summary import Summary

Drawn = tuple["Figure", Table]


def by_turn(summary: Summary) -> Drawn:
    """Rates by turn with intervals: at the turn, and the best so far."""
    figure, axes = new_figure(
        f"{summary.policy}: rates by turn (higher is better)",
        "turn",
        "share of samples",
        note=note_of(summary),
    )
    metrics = ["correct", *(_fast_metrics(summary)[:2] if summary.timed else [])]
    rows: list[tuple[str, ...]] = []
    turns = range(1, summary.turns + 1)
    for index, metric in enumerate(metrics):
        for best in (False, True):
            found = [
                summary.find(metric, "all", f"best of {t}" if best and t > 1 else f"turn {t}")
                for t in turns
            ]
            values = [row.value if row and row.value is not None else np.nan for row in found]
            label = f"{metric}, best so far" if best else metric
            axes.plot(
                list(turns),
                values,
                linestyle="--" if best else "-",
                marker=MARKS[index],
                color=COLOURS[index],
                label=label,
            )
            if not best:
                low = [row.low if row and row.low is not None else np.nan for row in found]
                high = [row.high if row and row.high is not None else np.nan for row in found]
                axes.fill_between(list(turns), low, high, color=COLOURS[index], alpha=0.15)
            rows += [
                (label, str(t), *(_cell(part) for part in (row.value, row.low, row.high)))
                for t, row in zip(turns, found, strict=True)
                if row is not None
            ]
    axes.set_ylim(0, 1)
    axes.set_xticks(list(turns))
    axes.legend(fontsize=7)
    return figure, Table("", ("series", "turn", "value", "low", "high"), tuple(rows))


def fastp_curve(arrays: Arrays, summary: Summary) -> Drawn:
    """Fast@p over p, at the last turn and best so far."""
    figure, axes = new_figure(
        f"{summary.policy}: Fast@p (higher is better)", "p", "Fast@p", note=note_of(summary)
    )
    points = np.round(np.linspace(0.0, 3.0, 61), 3)
    rows: list[tuple[str, ...]] = []
    series: Sequence[tuple[str, int | None]] = (
        (f"turn {arrays.turns}", None),
        (f"best of {arrays.turns}", arrays.turns),
    )
    for index, (label, best_of) in enumerate(series):
        values = [fast_at_p(arrays.speedups, float(p), best_of=best_of) for p in points]
        axes.plot(points, values, color=COLOURS[index], label=label)
        rows += [(label, f"{p:g}", _cell(v)) for p, v in zip(points, values, strict=True)]
    axes.set_ylim(0, 1)
    axes.legend(fontsize=7)
    return figure, Table("", ("series", "p", "value"), tuple(rows))


def outcome_bars(summary: Summary) -> Drawn:
    """What became of candidates, by turn."""
    figure, axes = new_figure(
        f"{summary.policy}: outcomes by turn", "turn", "candidates", note=note_of(summary)
    )
    names = list(dict.fromkeys(name for counts in summary.outcomes for name in counts))
    turns = np.arange(1, summary.turns + 1)
    bottom = np.zeros(summary.turns)
    for index, name in enumerate(names):
        heights = np.array([counts.get(name, 0) for counts in summary.outcomes], dtype=float)
        axes.bar(turns, heights, bottom=bottom, color=COLOURS[index % len(COLOURS)], label=name)
        bottom += heights
    axes.set_xticks(turns)
    axes.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0.0)
    rows = [
        (str(turn), *(str(counts.get(name, 0)) for name in names))
        for turn, counts in enumerate(summary.outcomes, 1)
    ]
    return figure, Table("", ("turn", *names), tuple(rows))


def lazy(arrays: Arrays, summary: Summary) -> Drawn:
    """Speedup beside coverage: lazy candidates stand at the left."""
    figure, axes = new_figure(
        f"{summary.policy}: speedup and coverage of correct candidates",
        "coverage (share of device time in own kernels)",
        "speedup",
        note=note_of(summary),
    )
    points = [
        (turn.index, turn.coverage, turn.speedup)
        for turn in arrays.all_turns()
        if turn.coverage is not None and turn.speedup is not None
    ]
    for index in range(arrays.turns):
        xs = [coverage for turn, coverage, _ in points if turn == index]
        ys = [speedup for turn, _, speedup in points if turn == index]
        axes.scatter(xs, ys, s=12, color=COLOURS[index % len(COLOURS)], label=f"turn {index + 1}")
    axes.axhline(1.0, color="#555555", linewidth=0.8)
    axes.legend(fontsize=7)
    rows = tuple((str(t + 1), _cell(c), _cell(s)) for t, c, s in points)
    return figure, Table("", ("turn", "coverage", "speedup"), rows)


def note_of(summary: Summary) -> str:
    """What a figure must say of itself."""
    parts = [
        f"n = {summary.tasks} tasks x {summary.samples} samples",
        ", ".join(summary.devices) or "no device",
    ]
    return "; ".join([*parts, *(["scripted policy: plumbing only"] if summary.scripted else [])])


def _fast_metrics(summary: Summary) -> list[str]:
    names = [row.metric for row in summary.rows if row.metric.startswith("fast@")]
    return [name for name in dict.fromkeys(names) if "/" not in name]


def _cell(value: float | None) -> str:
    return "" if value is None or np.isnan(value) else f"{value:.6g}"
