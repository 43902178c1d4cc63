"""``drkernel scale``: sequential test-time scaling."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from drkernel.cli import exit_codes
from drkernel.cli.playing import Playing
from drkernel.scale.settings import ScaleSettings

_PLAYING = Playing()
_DEFAULTS = ScaleSettings()


def scale(
    *,
    out: Path = Path("runs/scale"),
    run: Annotated[Playing, Parameter(name="*")] = _PLAYING,
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

    settings = run.settings(ScaleSettings, flags)
    if settings is None:
        return exit_codes.OK
    playing = scale_into(out, settings, resume=run.resume, quiet=run.quiet)
    return run.end(out, playing, tables_of)
