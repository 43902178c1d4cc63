"""``kernelgym tasks synth``: make synthetic tasks."""

from __future__ import annotations

import json as json_module
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from kernelgym.cli.options import Json
from kernelgym.errors import UsageError
from kernelgym.tasks.synth.record import SynthTask


@dataclass
class _Summary:
    tasks: int
    candidates: int
    refused: dict[str, int]
    splits: dict[str, int]
    files: list[str]


def synth(
    *,
    seed: Annotated[int, Parameter(help="Decides everything.")] = 0,
    count: Annotated[int, Parameter(help="How many tasks.")] = 100,
    difficulty: Annotated[
        str, Parameter(help="Primitive operators in a task: 3, or a range 1..8.")
    ] = "1..8",
    out: Annotated[
        Path, Parameter(help="FILE.jsonl, or a directory: one file a split, and summary.json.")
    ],
    benchmark: Annotated[
        Path | None, Parameter(help="Directory of a benchmark; its tasks are left out. Runs them.")
    ] = None,
    workers: Annotated[
        int | None, Parameter(help="Processes; default: one a core; 0: none besides this one.")
    ] = None,
    json: Json = False,
) -> int:
    """Make synthetic tasks: modules of primitive operators, each run and linted.

    The same seed gives the same tasks, on any machine and for any number of workers. Next:
    kernelgym tasks lint FILE.
    """
    from kernelgym.tasks.synth.generate import generate

    difficulties = _range(difficulty)
    if count < 1:
        raise UsageError("--count must be at least 1", hint="--count 100")
    to_file = out.suffix == ".jsonl"
    (out.parent if to_file else out).mkdir(parents=True, exist_ok=True)
    made = generate(
        seed,
        count,
        difficulties=difficulties,
        benchmark=benchmark,
        workers=(os.cpu_count() or 1) if workers is None else workers,
        progress=lambda now: _progress(len(now.tasks), count, now.candidates),
    )
    summary = _Summary(
        tasks=len(made.tasks),
        candidates=made.candidates,
        refused=dict(made.refused.most_common()),
        splits=dict.fromkeys(("train", "validation", "test"), 0),
        files=[],
    )
    for task in made.tasks:
        summary.splits[task.split] += 1
    _write(out, to_file, made.tasks, summary)
    _say(summary, count, json=json)
    return 0


def _range(text: str) -> range:
    low, dots, high = text.partition("..")
    try:
        first, last = int(low), int(high if dots else low)
    except ValueError:
        first, last = 1, 0
    if not 1 <= first <= last <= 8:
        raise UsageError(
            f"--difficulty {text!r} is neither a number from 1 to 8 nor a range of them",
            hint="--difficulty 1..8",
        )
    return range(first, last + 1)


def _progress(done: int, count: int, candidates: int) -> None:
    live = sys.stderr.isatty() and "CI" not in os.environ
    if live and candidates % 10 == 0:
        print(f"\r{done} of {count} tasks", file=sys.stderr, end="", flush=True)
    elif not live and candidates % 1000 == 0:
        print(f"{done} of {count} tasks", file=sys.stderr, flush=True)


def _write(out: Path, to_file: bool, tasks: list[SynthTask], summary: _Summary) -> None:
    from kernelgym.tasks.synth.record import write_records

    if to_file:
        write_records(tasks, out)
        summary.files.append(str(out))
        return
    for split in summary.splits:
        path = out / f"{split}.jsonl"
        write_records([task for task in tasks if task.split == split], path)
        summary.files.append(str(path))
    path = out / "summary.json"
    path.write_text(json_module.dumps(vars(summary), indent=1) + "\n", encoding="utf-8")


def _say(summary: _Summary, count: int, *, json: bool) -> None:
    if json:
        print(json_module.dumps(vars(summary), indent=2))
        return
    splits = ", ".join(f"{number} {name}" for name, number in summary.splits.items())
    print(f"{summary.tasks} tasks ({splits}) of {summary.candidates} candidates")
    for reason, number in summary.refused.items():
        print(f"  refused {number:6}  {reason}")
    for path in summary.files:
        print(f"  wrote {path}")
    if summary.tasks < count:
        print(f"only {summary.tasks} distinct tasks turned up", file=sys.stderr)
