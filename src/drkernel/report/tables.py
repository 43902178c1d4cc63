"""A table in three forms: aligned text, Markdown, CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """Cells as text; the first column is left-aligned, the others right."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    """What must be read beside it."""

    def text(self) -> str:
        """For a terminal."""
        widths = [max(len(line[i]) for line in (self.head, *self.rows)) for i in range(self.width)]
        lines = [self.title, ""] if self.title else []
        for line in (self.head, *self.rows):
            cells = [
                cell.ljust(size) if place == 0 else cell.rjust(size)
                for place, (cell, size) in enumerate(zip(line, widths, strict=True))
            ]
            lines.append("  ".join(cells).rstrip())
        return "\n".join([*lines, *([self.note] if self.note else [])]) + "\n"

    def markdown(self) -> str:
        """For a page."""
        lines = [f"### {self.title}", ""] if self.title else []
        lines.append("| " + " | ".join(_escaped(self.head)) + " |")
        lines.append("|:--|" + "--:|" * (self.width - 1))
        lines += ["| " + " | ".join(_escaped(row)) + " |" for row in self.rows]
        return "\n".join([*lines, *(["", self.note] if self.note else [])]) + "\n"

    def csv(self) -> str:
        """For programs."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerows([self.head, *self.rows])
        return out.getvalue()

    @property
    def width(self) -> int:
        """Columns."""
        return len(self.head)


def _escaped(cells: Sequence[str]) -> list[str]:
    return [cell.replace("|", "\\|") for cell in cells]
