"""``drkernel optimize``: look for a faster kernel for one module."""

from __future__ import annotations

import asyncio
import json as json_module
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from drkernel.cli import exit_codes
from drkernel.cli.options import Json, Quiet, Recipes, Resume, ShowConfig
from drkernel.config import load
from drkernel.optimize.settings import OptimizeSettings
from kernelgym.errors import UsageError

_DEFAULTS = OptimizeSettings()


def optimize(
    module: Path,
    /,
    *,
    config: Recipes = (),
    out: Path | None = None,
    run: Path | None = None,
    entry_point: str = "Model",
    resume: Resume = False,
    quiet: Quiet = False,
    json: Json = False,
    show_config: ShowConfig = False,
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

    settings = load(OptimizeSettings, config, flags)
    if show_config:
        print(settings.model_dump_json(indent=2))
        return exit_codes.OK
    task = task_from_file(module, entry_point)
    where = out or module.with_name(f"{module.stem}_fast.py")
    if where.exists() and not resume:
        raise UsageError(f"{where} exists already", hint="--out ANOTHER.py, or --resume")
    directory = run or Path("runs") / f"optimize-{module.stem}"
    found = asyncio.run(optimize_into(directory, task, settings, resume=resume, quiet=quiet))
    report = report_of(found, task, settings, where)
    write_whole(directory / "optimize.md", report)
    if found.winner is not None and found.worthwhile:
        write_whole(where, found.winner.code.rstrip() + "\n")
    if json:
        print(json_module.dumps(_record(found.worthwhile, where, directory), indent=2))
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
