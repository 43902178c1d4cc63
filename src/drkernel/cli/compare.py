"""``drkernel compare``: evaluated runs against each other, task by task."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from drkernel.cli import exit_codes


def compare(
    *runs: Path,
    threshold: Annotated[tuple[float, ...], Parameter(consume_multiple=True, negative="")] = (
        1.0,
        1.2,
        1.5,
        2.0,
    ),
    markdown: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Compare runs of drkernel eval: each with the first one, on the tasks that both have.

    Differences are paired by task, with 95% intervals and the p-value of a sign-flip test.

    Parameters
    ----------
    runs
        Two or more run directories.
    threshold
        The p of Fast@p.
    markdown
        Print Markdown.
    """  # fmt: skip
    from drkernel.evaluate.compare import comparison_tables
    from drkernel.evaluate.stored import read_evaluation

    stored = [read_evaluation(path) for path in runs]
    for table in comparison_tables(stored, threshold):
        print(table.markdown() if markdown else table.text())
    return exit_codes.OK
