"""``kernelgym tasks import``: tasks from JSONL, Parquet or a folder."""

from __future__ import annotations

import json as json_module
import sys
from collections import Counter
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from kernelgym.cli.options import Json

_SHOWN = 20


def import_tasks(
    source: Path,
    *,
    out: Annotated[Path | None, Parameter(help="Write the tasks here, as JSON lines.")] = None,
    entry_point: Annotated[
        str, Parameter(help="Class to look for where a row names none; default: Model.")
    ] = "",
    limit: Annotated[int | None, Parameter(help="Stop after so many tasks.")] = None,
    json: Json = False,
) -> int:
    """Read tasks from .jsonl, .json, .parquet, or everything below a folder.

    Rows that are no tasks are counted and listed; they never stop the others. No code is run.
    Next: kernelgym tasks lint FILE.
    """
    from kernelgym.tasks.importing import import_tasks as read

    found = read(source, entry_point=entry_point, limit=limit)
    if out is not None:
        with out.open("w", encoding="utf-8") as file:
            file.writelines(task.model_dump_json() + "\n" for task in found.tasks)
    if json:
        summary = {
            "rows": found.rows,
            "tasks": len(found.tasks),
            "duplicates": found.duplicates,
            "bad": [{"where": bad.where, "reason": bad.reason} for bad in found.bad],
            "out": str(out) if out else None,
        }
        print(json_module.dumps(summary, indent=2))
        return 0
    origins = Counter(task.origin for task in found.tasks)
    print(
        f"{len(found.tasks)} tasks, {found.duplicates} duplicates, {len(found.bad)} bad rows"
        f" of {found.rows}"
    )
    for origin, count in origins.most_common():
        print(f"  {count:6}  {origin}")
    for bad in found.bad[:_SHOWN]:
        print(f"  bad  {bad.where}: {bad.reason}")
    if len(found.bad) > _SHOWN:
        print(f"  and {len(found.bad) - _SHOWN} more bad rows: --json lists them", file=sys.stderr)
    if out is not None:
        print(f"  wrote {out}")
    return 0
