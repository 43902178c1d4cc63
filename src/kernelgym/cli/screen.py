"""What the verbs write: reports to stdout, progress to stderr, colour only on a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from kernelgym.report.text import Report, lines_of

_COLOURS = {"ok": "32", "bad": "31", "note": "33", "off": "2", "head": "1"}


def print_report(report: Report) -> None:
    """Print a report, in colour where stdout is a terminal."""
    print_lines(lines_of(report))


def print_lines(lines: list[tuple[str, str]]) -> None:
    """Print lines, each in the colour of its tone."""
    colour = _in_colour(sys.stdout)
    for line, tone in lines:
        print(f"\x1b[{_COLOURS[tone]}m{line}\x1b[0m" if colour and tone in _COLOURS else line)


@contextmanager
def working(what: str) -> Iterator[None]:
    """Say on stderr what is being done; on a terminal the line goes away afterwards."""
    live = sys.stderr.isatty() and "CI" not in os.environ
    print(what + " ...", file=sys.stderr, end="" if live else "\n", flush=True)
    try:
        yield
    finally:
        if live:
            print("\r\x1b[K", file=sys.stderr, end="", flush=True)


def _in_colour(stream: TextIO) -> bool:
    return stream.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
