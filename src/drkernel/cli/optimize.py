"""``drkernel optimize``: look for a faster kernel for one module."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from drkernel.cli import exit_codes
from drkernel.cli.playing import Playing
from drkernel.optimize.settings import OptimizeSettings
from kernelgym.errors import UsageError

_PLAYING = Playing()
_DEFAULTS = OptimizeSettings()


def optimize(
    module: Path,
    /,
    *,
    out: Path | None = None,
    run: Path | None = None,
    entry_point: str = "Model",
    playing: Annotated[Playing, Parameter(name="*")] = _PLAYING,
    flags: Annotated[OptimizeSettings, Parameter(name="*")] = _DEFAULTS,
) -> int:
    """Look for a faster kernel for one module and write the best one to a file.

    The module file defines the class, get_inputs() and, where the constructor takes arguments,
    get_init_inputs(). Nothing is written over: the winner goes to MODULE_fast.py. Exit code 1 when
    nothing correct and faster is found. Unless told otherwise: 4 attempts of 8 turns each, the 4
    best turns in context.

    Parameters
    ----------
    module
        Python file with the module.
    out
        Where the winner is written; default MODULE_fast.py beside the module.
    run
        Directory of the search; default runs/optimize-MODULE.
    entry_point
        Name of the class.
    """
    from drkernel.optimize.report import report_of, verdict_of
    from drkernel.optimize.searching import optimize_into
    from drkernel.rollout.directory import write_whole
    from kernelgym.tasks.task import task_from_file

    settings = playing.settings(OptimizeSettings, flags)
    if settings is None:
        return exit_codes.OK
    task = task_from_file(module, entry_point)
    where = out or module.with_name(f"{module.stem}_fast.py")
    if where.exists() and not playing.resume:
        raise UsageError(f"{where} exists already", hint="--out ANOTHER.py, or --resume")
    directory = run or Path("runs") / f"optimize-{module.stem}"
    searching = optimize_into(directory, task, settings, resume=playing.resume, quiet=playing.quiet)
    found = asyncio.run(searching)
    report = report_of(found, task, settings, where)
    write_whole(directory / "optimize.md", report)
    if found.winner is not None and found.worthwhile:
        write_whole(where, found.winner.code.rstrip() + "\n")
    if playing.json:
        print(json.dumps(_record(found.worthwhile, where, directory), indent=2))
    else:
        print(verdict_of(found, settings))
        if found.worthwhile:
            print(f"wrote {where}")
        print(f"report: {directory / 'optimize.md'}")
    return exit_codes.OK if found.worthwhile else exit_codes.NOTHING_FOUND


def _record(worthwhile: bool, where: Path, directory: Path) -> dict[str, object]:
    return {
        "found": worthwhile,
        "file": str(where) if worthwhile else None,
        "report": str(directory / "optimize.md"),
    }
