"""``drkernel scale``: sequential test-time scaling."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from drkernel.cli import exit_codes
from drkernel.cli.options import Json, Quiet, Recipes, Resume, ShowConfig
from drkernel.config import load
from drkernel.scale.settings import ScaleSettings

_DEFAULTS = ScaleSettings()


def scale(
    *,
    config: Recipes = (),
    out: Path = Path("runs/scale"),
    resume: Resume = False,
    quiet: Quiet = False,
    json: Json = False,
    show_config: ShowConfig = False,
    flags: Annotated[ScaleSettings, Parameter(name="*")] = _DEFAULTS,
) -> int:
    """Give a policy many turns, and see what they are worth.

    M = 5, I = 10, w = 4 make 14 turns. Winners are judged again on fresh inputs in a fresh process.

    Parameters
    ----------
    out
        Directory of the run: arms, tables, figures, report.html.
    """
    from drkernel.scale.running import scale_into
    from drkernel.scale.summary import tables_of

    settings = load(ScaleSettings, config, flags)
    if show_config:
        print(settings.model_dump_json(indent=2))
        return exit_codes.OK
    summary = asyncio.run(scale_into(out, settings, resume=resume, quiet=quiet))
    if json:
        print(summary.model_dump_json(indent=2))
        return exit_codes.OK
    print("\n".join(table.text() for table in tables_of(summary)))
    print(f"wrote {out / 'report.html'}, {out / 'table.md'}, {out / 'table.csv'}")
    return exit_codes.OK
