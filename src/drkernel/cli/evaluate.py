"""``drkernel eval``: measure a policy on a suite of tasks."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from drkernel.cli import exit_codes
from drkernel.cli.options import Json, Quiet, Recipes, Resume, ShowConfig
from drkernel.config import load
from drkernel.evaluate.settings import EvalSettings

_DEFAULTS = EvalSettings()


def evaluate(
    *,
    config: Recipes = (),
    out: Path = Path("runs/eval"),
    resume: Resume = False,
    quiet: Quiet = False,
    json: Json = False,
    show_config: ShowConfig = False,
    flags: Annotated[EvalSettings, Parameter(name="*")] = _DEFAULTS,
) -> int:
    """Measure a policy: 8 samples of every task, 3 turns each, Fast@p with intervals.

    --policy.name says who: openai:MODEL, transformers:FOLDER or teacher.

    Parameters
    ----------
    out
        Directory of the run: episodes, tables, figures, report.html.
    """
    from drkernel.evaluate.running import evaluate_into
    from drkernel.evaluate.summary import tables_of

    settings = load(EvalSettings, config, flags)
    if show_config:
        print(settings.model_dump_json(indent=2))
        return exit_codes.OK
    summary = asyncio.run(evaluate_into(out, settings, resume=resume, quiet=quiet))
    if json:
        print(summary.model_dump_json(indent=2))
        return exit_codes.OK
    print("\n".join(table.text() for table in tables_of(summary)))
    print(f"wrote {out / 'report.html'}, {out / 'table.md'}, {out / 'table.csv'}")
    return exit_codes.OK
