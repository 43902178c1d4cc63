"""How figures look: readable in print, safe for colour-blind readers, no interactive back end."""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from drkernel.report.tables import Table
from kernelgym.errors import UsageError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

log = logging.getLogger("drkernel.report")
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#999999", "#000000")
"""Okabe and Ito's palette."""
MARKS = ("o", "s", "^", "D", "v", "P", "X", "*")


def can_draw() -> bool:
    """Whether matplotlib is there; says once what is missed without it."""
    if importlib.util.find_spec("matplotlib") is not None:
        return True
    log.warning(
        "no figures without matplotlib: pip install 'drkernel[report]', drkernel report RUN"
    )
    return False


def new_figure(title: str, x: str, y: str, *, note: str = "") -> tuple[Figure, Axes]:
    """An empty figure with one pair of axes.

    Raises `UsageError` without matplotlib.
    """
    figure, (axes,) = new_panels("", x, [y], note=note)
    axes.set_title(title, fontsize=10)
    return figure, axes


def new_panels(
    title: str, x: str, ys: Sequence[str], *, note: str = ""
) -> tuple[Figure, list[Axes]]:
    """An empty figure with a pair of axes for each of ``ys``, two in a row.

    Raises `UsageError` without matplotlib.
    """
    try:
        from matplotlib.figure import Figure as Canvas
    except ImportError as error:
        raise UsageError(
            "figures need matplotlib", hint="pip install 'drkernel[report]'"
        ) from error
    columns = min(2, len(ys))
    rows = -(-len(ys) // columns)
    figure = Canvas(figsize=(3.2 + 3.2 * columns, 1.4 + 2.6 * rows), layout="constrained")
    panels = [figure.add_subplot(rows, columns, place + 1) for place in range(len(ys))]
    for axes, y in zip(panels, ys, strict=True):
        axes.set_xlabel(x)
        axes.set_ylabel(y)
        axes.grid(visible=True, alpha=0.25)
    if title:
        figure.suptitle(title, fontsize=10)
    if note:
        figure.supxlabel(note, fontsize=7, color="#555555")
    return figure, panels


def save(figure: Figure, data: Table, directory: Path, name: str) -> list[Path]:
    """PNG, SVG and the CSV behind them."""
    directory.mkdir(parents=True, exist_ok=True)
    paths = [directory / f"{name}.{kind}" for kind in ("png", "svg", "csv")]
    import matplotlib as mpl

    figure.savefig(paths[0], dpi=150)
    # Neither a date nor random ids: the same numbers give the same file.
    with mpl.rc_context({"svg.hashsalt": name}):
        figure.savefig(paths[1], metadata={"Date": None})
    paths[2].write_text(data.csv(), encoding="utf-8")
    return paths
