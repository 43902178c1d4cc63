"""A run directory: what was asked for, on what machine, and everything that came of it.

    config.json      the whole configuration; ``-c config.json`` runs it again
    config.digest    SHA-256 of what in it decides results
    env.json         versions and machine of each start
    tasks.jsonl      the tasks, each source once
    episodes.jsonl   turns as they ended (see `drkernel.rollout.log`)

Other verbs add their tables, figures and reports. A run is continued only with ``--resume`` and
under the same digest, and nothing is ever deleted.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from drkernel import __version__
from drkernel.config import Section, digest
from kernelgym.errors import UsageError
from kernelgym.schema import EVALUATOR_VERSION, Task

_PACKAGES = ("torch", "triton", "numpy", "transformers", "numba")
_SHOWN = 6


class RunDirectory:
    """The directory of one run."""

    def __init__(self, path: Path, config: Section, kind: str, *, resume: bool) -> None:
        """Create it, or continue what is there; raises `UsageError` where that must not be."""
        self.path = path
        self.digest = digest(config)
        self.kind = kind
        known = path / "config.digest"
        wanted = f"{kind} {self.digest}"
        if known.exists():
            self._check(known, wanted, resume)
        elif path.exists() and any(path.iterdir()):
            raise UsageError(f"{path} is not empty and holds no run", hint="--out DIRECTORY")
        path.mkdir(parents=True, exist_ok=True)
        write_whole(path / "config.json", config.model_dump_json(indent=2) + "\n")
        self._note_environment()
        write_whole(known, wanted + "\n")

    def _check(self, known: Path, wanted: str, resume: bool) -> None:
        kind, _, _ = known.read_text().partition(" ")
        if kind != self.kind:
            raise UsageError(
                f"{self.path} holds a run of drkernel {kind}", hint="--out ANOTHER_DIRECTORY"
            )
        if known.read_text().strip() != wanted:
            raise UsageError(
                f"{self.path} holds a run with another configuration (see its config.json)",
                hint="--out ANOTHER_DIRECTORY",
            )
        if not resume:
            raise UsageError(f"{self.path} holds this run already", hint="the same with --resume")

    @property
    def episodes(self) -> Path:
        """The log of episodes."""
        return self.path / "episodes.jsonl"

    def store_tasks(self, tasks: Sequence[Task]) -> None:
        """Keep the tasks; a resumed run must have the same."""
        path = self.path / "tasks.jsonl"
        text = "".join(task.model_dump_json() + "\n" for task in tasks)
        if path.exists() and path.read_text(encoding="utf-8") != text:
            raise UsageError(
                f"the tasks have changed since {self.path} was begun", hint="--out ANOTHER"
            )
        write_whole(path, text)

    def _note_environment(self) -> None:
        path = self.path / "env.json"
        starts: list[Any] = json.loads(path.read_text()) if path.exists() else []
        write_whole(path, json.dumps([*starts, _environment()], indent=2) + "\n")


def no_run(path: Path, verb: str) -> UsageError:
    """The error for a path that is no run directory; names runs that are near it.

    ``verb``: what was asked of it, for the next command to try.
    """
    what = "no config.digest in it" if path.exists() else "no such folder"
    near = [str(run) for run in _runs_near(path, "eval" if verb == "compare" else "")]
    if not near:
        return UsageError(
            f"{path} holds no run ({what})", hint="drkernel eval --policy.name teacher --out RUN"
        )
    taken = near[: 2 if verb == "compare" else 1]
    return UsageError(
        f"{path} holds no run ({what}); runs near it: {', '.join(near[:_SHOWN])}",
        hint=f"drkernel {verb} {' '.join(taken)}",
    )


def _runs_near(path: Path, kind: str) -> list[Path]:
    """Run directories in it, beside it, or where runs are written unless told otherwise."""
    for place in (path, path.parent, Path("runs")):
        known = [one for one in place.glob("*/config.digest") if one.read_text().startswith(kind)]
        if known:
            return sorted((one.parent for one in known), key=lambda run: -run.stat().st_mtime)
    return []


def read_tasks(directory: Path) -> dict[str, Task]:
    """Tasks of a run by name."""
    path = directory / "tasks.jsonl"
    if not path.exists():
        raise UsageError(f"{directory} holds no run: it has no tasks.jsonl")
    lines = path.read_text(encoding="utf-8").splitlines()
    tasks = [Task.model_validate_json(line) for line in lines if line.strip()]
    return {task.name: task for task in tasks}


def write_whole(path: Path, text: str) -> None:
    """Write a file so that it is there as a whole, or as it was."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)


def _environment() -> dict[str, Any]:
    versions = {"drkernel": __version__, "python": platform.python_version()}
    for name in _PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return {
        "started_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
        "host": platform.node(),
        "linux": platform.release(),
        "cpus": os.cpu_count(),
        "evaluator_version": EVALUATOR_VERSION,
        "versions": versions,
    }
