"""Rows of text in columns, the last one cut or wrapped to the width there is."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence


def table(header: Sequence[str], rows: Sequence[Sequence[str]], width: int = 120) -> list[str]:
    """Lines of a table; the last column gets what is left of ``width`` and is wrapped."""
    cells = [header, *rows]
    sizes = [max(len(row[column]) for row in cells) for column in range(len(header) - 1)]
    left = max(24, width - sum(sizes) - 2 * len(sizes))
    lines = _lay_out(header, sizes, left)
    lines.append("  ".join(["-" * size for size in sizes] + ["-" * min(left, 24)]))
    for row in rows:
        lines += _lay_out(row, sizes, left)
    return lines


def _lay_out(row: Sequence[str], sizes: Sequence[int], left: int) -> list[str]:
    wrapped = textwrap.wrap(row[-1], left, break_on_hyphens=False) or [""]
    fixed = [f"{cell:<{size}}" for cell, size in zip(row[:-1], sizes, strict=True)]
    blank = [" " * size for size in sizes]
    first = "  ".join([*fixed, wrapped[0]]).rstrip()
    return [first, *("  ".join([*blank, line]).rstrip() for line in wrapped[1:])]
