"""The tasks of a run, from names of suites, ids, files and seeds.

======================  ===========================================================================
``builtin``             every built-in task, small; ``builtin:gpu`` with sizes for a GPU
``kernelbench:level2``  a level of a KernelBench checkout (``tasks.root``, or $KERNELBENCH_DIR)
``builtin/softmax``     one task by its name, as ``level2/40``
``synth:SEED:COUNT``    synthetic tasks, made now; ``synth:SEED:COUNT:1..3`` of these difficulties
a path                  JSONL, Parquet, or a folder of references; of synthetic tasks the split,
                        configuration and sizes that the settings name
======================  ===========================================================================

Names become unique within a run: a repeated one gets a piece of its content hash.
"""

from __future__ import annotations

import json
import random
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter
from pydantic import Field

from drkernel.config import OPERATIONAL, Section
from drkernel.rollout.directory import read_tasks
from kernelgym.errors import UsageError
from kernelgym.schema import Task
from kernelgym.tasks.importing import import_tasks
from kernelgym.tasks.kernelbench import kernelbench_root, kernelbench_task, problem_files
from kernelgym.tasks.registry import GPU_SUFFIX, builtin_task, builtin_tasks
from kernelgym.tasks.synth.record import SynthTask, read_records
from kernelgym.tasks.task import find_task


class TaskSettings(Section):
    """Which tasks, and how much of each."""

    source: Annotated[tuple[str, ...], Parameter(consume_multiple=True, negative="")] = ("builtin",)
    """Suites, task names, files, folders, or synth:SEED:COUNT."""
    root: Annotated[Path | None, OPERATIONAL] = None
    """The KernelBench checkout; default $KERNELBENCH_DIR."""
    limit: int | None = Field(default=None, ge=1)
    """At most so many tasks, after shuffling."""
    shuffle: int | None = None
    """Seed of the order; None keeps the sources' order."""
    split: Literal["any", "train", "validation", "test"] = "any"
    """Of synthetic tasks."""
    configuration: str = "base"
    """Of synthetic tasks: base, tail, strided or extreme inputs."""
    scale: Literal["lint", "full"] = "full"
    """Of synthetic tasks: sizes small enough for a CPU, or for a GPU."""


def load_tasks(settings: TaskSettings) -> list[Task]:
    """The tasks, in order; raises `UsageError` for a source that does not exist or holds none."""
    tasks: list[Task] = []
    seen: set[str] = set()
    for source in settings.source:
        for task in _of(source, settings):
            if task.content_hash not in seen:
                seen.add(task.content_hash)
                tasks.append(task)
    if settings.shuffle is not None:
        random.Random(settings.shuffle).shuffle(tasks)
    tasks = _named_apart(tasks)[: settings.limit]
    if not tasks:
        raise UsageError(
            f"no task in {', '.join(settings.source) or 'an empty list of sources'}",
            hint="--tasks.source builtin, kernelbench:level2, FILE.jsonl or synth:1:50",
        )
    return tasks


def tasks_for(path: Path, settings: TaskSettings) -> list[Task]:
    """The tasks that a run directory holds already, else those that the settings name."""
    if (path / "tasks.jsonl").exists():
        return list(read_tasks(path).values())
    return load_tasks(settings)


def _of(source: str, settings: TaskSettings) -> Iterator[Task]:
    if source in ("builtin", "builtin" + GPU_SUFFIX):
        suffix = source.removeprefix("builtin")
        yield from (builtin_task(task.name + suffix) for task in builtin_tasks())
    elif source.startswith("kernelbench"):
        yield from _kernelbench(source, settings.root)
    elif source.startswith("synth:"):
        yield from _taken(_made(source), settings)
    elif Path(source).exists():
        yield from _file(Path(source), settings)
    elif source.startswith(("builtin/", "level")):
        yield find_task(source, settings.root)
    else:
        raise UsageError(
            f"no tasks called {source!r}, and no such file",
            hint="builtin, kernelbench:level2, synth:1:50, or a path",
        )


def _kernelbench(source: str, root: Path | None) -> Iterator[Task]:
    name, _, level = source.partition(":")
    levels = [level] if level else ["level1", "level2", "level3"]
    if name != "kernelbench" or not all(one.removeprefix("level").isdecimal() for one in levels):
        raise UsageError(f"no suite {source!r}", hint="kernelbench:level2")
    directory = kernelbench_root(root)
    for one in levels:
        files = problem_files(directory, int(one.removeprefix("level")))
        if not files:
            raise UsageError(f"no problems in {directory / one}", hint=f"ls {directory}")
        yield from (kernelbench_task(f"{one}/{path.stem}", root) for path in files)


def _made(source: str) -> list[SynthTask]:
    from kernelgym.tasks.synth.generate import generate

    parts = source.split(":")[1:]
    try:
        seed, count = int(parts[0]), int(parts[1])
        low, _, high = (parts[2] if len(parts) > 2 else "1..8").partition("..")
        difficulties = range(int(low), int(high or low) + 1)
    except (IndexError, ValueError):
        raise UsageError(
            f"{source!r} is not synth:SEED:COUNT or synth:SEED:COUNT:1..3", hint="synth:1:50"
        ) from None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch, about operators that tasks use
        return generate(seed, count, difficulties=difficulties, workers=0).tasks


def _taken(records: list[SynthTask], settings: TaskSettings) -> Iterator[Task]:
    for record in records:
        known = {entry.name for entry in record.configurations}
        if settings.split not in ("any", record.split) or settings.configuration not in known:
            continue
        yield record.task(settings.configuration, settings.scale)


def _file(path: Path, settings: TaskSettings) -> Iterator[Task]:
    if path.is_file() and path.suffix == ".jsonl" and _is_synthetic(path):
        yield from _taken(list(read_records(path)), settings)
        return
    found = import_tasks(path)
    if not found.tasks and found.bad:
        first = found.bad[0]
        raise UsageError(
            f"{path} holds no task: {first.where}: {first.reason}",
            hint=f"kernelgym tasks import {path}",
        )
    yield from found.tasks


def _is_synthetic(path: Path) -> bool:
    with path.open(encoding="utf-8", errors="replace") as file:
        try:
            first = json.loads(file.readline())
        except ValueError:
            return False
    return isinstance(first, dict) and "configurations" in first


def _named_apart(tasks: list[Task]) -> list[Task]:
    count = Counter(task.name for task in tasks)
    return [
        task
        if count[task.name] == 1
        else task.model_copy(update={"name": f"{task.name[:180]}@{task.content_hash[:8]}"})
        for task in tasks
    ]
