"""``drkernel collect``: record a teacher's multi-turn trajectories as a data set."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from drkernel.cli import exit_codes
from drkernel.cli.playing import Playing
from drkernel.collect.settings import CollectSettings

_PLAYING = Playing()
_DEFAULTS = CollectSettings()


def collect(
    *,
    out: Path = Path("runs/collect"),
    run: Annotated[Playing, Parameter(name="*")] = _PLAYING,
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

    settings = run.settings(CollectSettings, flags)
    if settings is None:
        return exit_codes.OK
    statistics = asyncio.run(collect_into(out, settings, resume=run.resume, quiet=run.quiet))
    show_statistics(statistics, out, as_json=run.json)
    return exit_codes.OK if statistics["trajectories"] else exit_codes.NOTHING_FOUND


def show_statistics(statistics: dict[str, Any], out: Path, *, as_json: bool) -> None:
    """What was collected, for people or for programs."""
    if as_json:
        print(json.dumps(statistics, indent=2))
    else:
        print("\n".join(_lines(statistics, out)))


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
