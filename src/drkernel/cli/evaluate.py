"""``drkernel eval``: measure a policy on a suite of tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from drkernel.cli import exit_codes
from drkernel.cli.playing import Playing
from drkernel.evaluate.settings import EvalSettings

_PLAYING = Playing()
_DEFAULTS = EvalSettings()


def evaluate(
    *,
    out: Path = Path("runs/eval"),
    run: Annotated[Playing, Parameter(name="*")] = _PLAYING,
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

    settings = run.settings(EvalSettings, flags)
    if settings is None:
        return exit_codes.OK
    playing = evaluate_into(out, settings, resume=run.resume, quiet=run.quiet)
    return run.end(out, playing, tables_of)
