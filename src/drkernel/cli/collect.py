"""``drkernel collect``: record a teacher's multi-turn trajectories as a data set."""

from __future__ import annotations

import asyncio
import json as json_module
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from drkernel.cli import exit_codes
from drkernel.cli.options import Json, Quiet, Recipes, Resume, ShowConfig
from drkernel.collect.settings import CollectSettings
from drkernel.config import load

_DEFAULTS = CollectSettings()


def collect(
    *,
    config: Recipes = (),
    out: Path = Path("runs/collect"),
    resume: Resume = False,
    quiet: Quiet = False,
    json: Json = False,
    show_config: ShowConfig = False,
    flags: Annotated[CollectSettings, Parameter(name="*")] = _DEFAULTS,
) -> int:
    """Record trajectories: a policy proposes, the gym judges, several turns, many tasks.

    Without options: the scripted teacher, five turns on 50 synthetic tasks, judged here. Exit code
    1 when no trajectory passes the selection.

    Parameters
    ----------
    out
        Directory of the run: episodes, Parquet, data card.
    """
    from drkernel.collect.recording import collect_into

    settings = load(CollectSettings, config, flags)
    if show_config:
        print(settings.model_dump_json(indent=2))
        return exit_codes.OK
    statistics = asyncio.run(collect_into(out, settings, resume=resume, quiet=quiet))
    if json:
        print(json_module.dumps(statistics, indent=2))
    else:
        for line in _lines(statistics, out):
            print(line)
    return exit_codes.OK if statistics["trajectories"] else exit_codes.NOTHING_FOUND


def _lines(statistics: dict[str, Any], out: Path) -> list[str]:
    lines = [
        f"{statistics['trajectories']} of {statistics['played']} trajectories kept,"
        f" on {statistics['tasks']} tasks"
    ]
    lines += [f"  left out {n:5}  {reason}" for reason, n in statistics["left_out"].items()]
    for turn, outcomes in enumerate(statistics["outcomes_by_turn"], 1):
        said = ", ".join(f"{n} {name}" for name, n in outcomes.items())
        lines.append(f"  turn {turn}: {said}")
    return [*lines, f"wrote {out / 'trajectories.parquet'} and {out / 'README.md'}"]
