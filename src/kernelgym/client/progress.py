"""A progress bar on stderr, or a function of the caller's."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def follow(
    progress: bool | Callable[[int, int], None], total: int
) -> Iterator[Callable[[int], None]]:
    """Yield what is to be called with the number of evaluations that have ended."""
    if callable(progress):
        report = progress
        yield lambda done: report(done, total)
    elif progress and sys.stderr.isatty() and "CI" not in os.environ:
        with _bar(total) as report_bar:
            yield report_bar
    else:
        yield lambda _: None


@contextmanager
def _bar(total: int) -> Iterator[Callable[[int], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("evaluations", total=total)
        yield lambda done: bar.update(task, completed=done)
