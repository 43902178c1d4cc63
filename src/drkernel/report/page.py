"""A run as one HTML page: figures and tables inside, nothing loaded from elsewhere."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import jinja2

from drkernel.report.tables import Table


@dataclass(frozen=True)
class Picture:
    """A figure on the page."""

    name: str
    svg: str


def picture(path: Path) -> Picture:
    """An SVG file as part of a page."""
    text = path.read_text(encoding="utf-8")
    return Picture(path.stem, re.sub(r"^.*?(?=<svg)", "", text, count=1, flags=re.DOTALL))


def page(
    title: str,
    *,
    facts: Sequence[tuple[str, str]] = (),
    notes: Sequence[str] = (),
    figures: Sequence[Picture] = (),
    tables: Sequence[Table] = (),
    examples: Sequence[tuple[str, str]] = (),
    footer: str = "",
) -> str:
    """The page. Everything but the figures, which are our own, is escaped."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("drkernel.report", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
    )
    return environment.get_template("page.html.jinja").render(
        title=title,
        facts=facts,
        notes=notes,
        figures=figures,
        tables=tables,
        examples=examples,
        footer=footer,
    )
