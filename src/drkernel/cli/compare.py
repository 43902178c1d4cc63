"""``drkernel compare``: evaluated runs against each other, task by task."""

from __future__ import annotations

from json import dumps
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from drkernel.cli import exit_codes
from drkernel.cli.options import Json


def compare(
    *runs: Path,
    threshold: Annotated[tuple[float, ...], Parameter(consume_multiple=True, negative="")] = (
        1.0,
        1.2,
        1.5,
        2.0,
    ),
    markdown: Annotated[bool, Parameter(negative="")] = False,
    json: Json = False,
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
    from drkernel.evaluate.compare import comparison_tables, differences
    from drkernel.evaluate.stored import read_evaluation

    stored = [read_evaluation(path, verb="compare") for path in runs]
    if json:
        print(dumps(differences(stored, threshold), indent=2))
        return exit_codes.OK
    for table in comparison_tables(stored, threshold):
        print(table.markdown() if markdown else table.text())
    return exit_codes.OK
