"""``kernelgym tasks lint``: can a task tell a solution from nonsense?"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from kernelgym.cli import exit_codes
from kernelgym.cli.options import Json
from kernelgym.errors import UsageError
from kernelgym.schema import JailLevel, Protocol, Task
from kernelgym.tasks.lint_report import LintReport


def lint(
    source: str,
    *,
    root: Annotated[Path | None, Parameter(help="A KernelBench checkout, for levelL/N.")] = None,
    reduce: Annotated[
        bool, Parameter(negative="", help="Cut sizes for a CPU; the report says so.")
    ] = False,
    protocol: Annotated[Protocol, Parameter(help="Tolerances to judge solvers by.")] = "standard",
    limit: Annotated[int | None, Parameter(help="Lint so many tasks.")] = None,
    timeout_s: Annotated[float, Parameter(help="Seconds for one task.")] = 120.0,
    memory_mb: Annotated[int, Parameter(help="Memory for one task, MiB.")] = 8192,
    workers: Annotated[int | None, Parameter(help="Tasks at once; default: one a core.")] = None,
    jail: Annotated[JailLevel, Parameter(help="Confinement of the tasks' code.")] = "L1",
    json: Json = False,
) -> int:
    """Lint a task by name, or those of a file or folder (see: kernelgym tasks import).

    Solvers that compute nothing (zeros, a constant, the answer to other inputs, an input, ...) are
    judged on each task; one that accepts a solver is faulty. Exit code 1 if any is.
    """
    from kernelgym.tasks.lint_jail import LintJail

    tasks = _tasks(source, root, limit)
    if reduce:
        tasks = [_reduced(task) for task in tasks]
    reports = []
    with LintJail(jail_level=jail, memory_mb=memory_mb, hidden=_hidden(source, root)) as jailed:
        for report in jailed.lint_all(
            tasks, workers=workers or os.cpu_count() or 1, protocol=protocol, limit_s=timeout_s
        ):
            reports.append(report)
            print(report.model_dump_json() if json else _line(report), flush=True)
    if not json:
        _summarise(reports)
    return 0 if all(report.ok for report in reports) else exit_codes.CANDIDATE_FAILED


def _tasks(source: str, root: Path | None, limit: int | None) -> list[Task]:
    from kernelgym.tasks.importing import import_tasks
    from kernelgym.tasks.task import find_task

    path = Path(source)
    if not path.exists():
        return [find_task(source, root)]
    found = import_tasks(path, limit=limit)
    for bad in found.bad[:20]:
        print(f"no task  {bad.where}: {bad.reason}", file=sys.stderr)
    if not found.tasks:
        raise UsageError(f"{source} holds no task", hint=f"kernelgym tasks import {source}")
    return found.tasks


def _reduced(task: Task) -> Task:
    """The strongest reduction; whether it still works is for the lint to say."""
    from kernelgym.tasks.reduce import reductions

    for name, text in reductions(task.reference):
        if text != task.reference:
            return task.model_copy(
                update={"reference": text, "labels": {**task.labels, "reduced": name}}
            )
    return task


def _hidden(source: str, root: Path | None) -> list[str]:
    """Other tasks, which a task has no business reading."""
    path = Path(source)
    given = [path if path.is_dir() else path.parent] if path.exists() else []
    kept = [place.resolve() for place in (*given, *([root] if root else []))]
    return [str(place) for place in kept if place not in (Path("/"), Path("/tmp"), Path.cwd())]


def _line(report: LintReport) -> str:
    mark = "ok   " if report.ok else "FAULT"
    said = "; ".join(f"{f.id} ({f.message})" for f in report.findings)
    margin = f"margin {report.margin:.3g}" if report.margin is not None else ""
    return f"{mark}  {report.task}  {said or margin}"


def _summarise(reports: Iterable[LintReport]) -> None:
    reports = list(reports)
    faulty = [report for report in reports if not report.ok]
    print(f"{len(reports) - len(faulty)} of {len(reports)} tasks can be trusted")
    ids = Counter(f.id for r in reports for f in r.findings if f.severity == "fault")
    for name, count in ids.most_common():
        print(f"  {count:6}  {name}")
