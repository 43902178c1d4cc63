"""``kernelgym bench``: judge a directory of candidates and sum up."""

from __future__ import annotations

import functools
import json as json_module
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from kernelgym.bench.directory import RunDirectory
from kernelgym.bench.judging import judge_here, judge_in_gym
from kernelgym.bench.samples import Sample, find_samples, submissions
from kernelgym.cli import exit_codes
from kernelgym.cli.device import resolve_device
from kernelgym.cli.judging import JudgingOptions
from kernelgym.cli.options import Json
from kernelgym.cli.service_options import Server, TokenFile, address, connect
from kernelgym.schema import EvalResult, JailLevel, Submission
from kernelgym.tasks.task import find_task


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Here:
    """How candidates are judged on this machine, without a gym."""

    here: Annotated[bool, Parameter(negative="")] = False
    """Judge on this machine even if a gym runs."""
    device: str = "auto"
    """auto, cpu or cuda:N, when judged on this machine."""
    jail: JailLevel = "L1"
    """Confinement, when judged on this machine."""
    workers: int | None = None
    """Candidates at once, when judged on this machine; default one a core, or four on a
    GPU."""


_DEFAULTS = JudgingOptions()
_HERE = Here()


def bench(
    directory: Path,
    /,
    *,
    suite: str,
    root: Path | None = None,
    out: Path | None = None,
    options: JudgingOptions = _DEFAULTS,
    place: Here = _HERE,
    server: Server = None,
    token_file: TokenFile = None,
    json: Json = False,
) -> int:
    """Judge every candidate in a directory; the same command again goes on where it stopped.

    Candidates go to the gym that runs, else they are judged on this machine. Exit codes: 0 all were
    judged, 2 usage, 3 some could not be judged.

    Parameters
    ----------
    directory
        Candidates: a run of KernelBench (level_*_problem_*_sample_*_kernel.py), or TASK.py files.
    suite
        kernelbench, kernelbench:level2, or builtin.
    root
        The KernelBench checkout; default $KERNELBENCH_DIR.
    out
        Run directory; default runs/NAME-OF-DIRECTORY.
    server
        Address of the gym.
    token_file
        File with a client's token.
    """
    fields = options.fields()
    samples = find_samples(directory, suite)
    work = submissions(samples, functools.partial(find_task, root=root), fields)
    run = RunDirectory(out or Path("runs") / directory.name, {"suite": suite, **fields})
    board = _Board(run, samples, work)
    gym = None if place.here else server or os.environ.get("KERNELGYM_SERVER") or address(None)
    if board.todo and gym is not None:
        with connect(gym, token_file) as client:
            judge_in_gym(client, [work[n] for n in board.todo], board.report)
    elif board.todo:
        _judge_here([work[n] for n in board.todo], board, place)
    summary = run.summarise(board.results)
    print(json_module.dumps(summary, indent=2) if json else _text(summary, run.path))
    return exit_codes.SERVICE if summary["not_judged"] else exit_codes.OK


def _judge_here(work: list[Submission], board: _Board, place: Here) -> None:
    device = resolve_device(place.device)
    judge_here(work, board.report, device=device, jail=place.jail, concurrency=place.workers)


class _Board:
    """Results by sample, those of an earlier start included."""

    def __init__(self, run: RunDirectory, samples: list[Sample], work: list[Submission]) -> None:
        self._run, self._samples, self._work = run, samples, work
        done = run.done()
        self.results: list[EvalResult | None] = [
            done.get((sample.task, sample.number, one.source_hash))
            for sample, one in zip(samples, work, strict=True)
        ]
        self.todo = [n for n, result in enumerate(self.results) if result is None]
        self._left = len(self.todo)
        if self._left < len(samples):
            print(f"{len(samples) - self._left} judged before, {self._left} left", file=sys.stderr)

    def report(self, place: int, result: EvalResult | None, note: str) -> None:
        index = self.todo[place]
        sample = self._samples[index]
        self.results[index] = result
        self._run.add(sample, self._work[index].source_hash, result, note)
        self._left -= 1
        word = result.outcome.value if result else f"not judged: {note}"
        print(f"{sample.path.name}  {word}  ({self._left} left)", file=sys.stderr)


def _text(summary: dict[str, Any], path: Path) -> str:
    lines = [f"{summary['judged']} of {summary['candidates']} candidates judged; results in {path}"]
    lines += [f"  {number:>5}  {outcome}" for outcome, number in summary["outcomes"].items()]
    if summary["fast_at"] is None:
        lines.append("  Fast@p: no speedup was measured (no GPU)")
    else:
        lines += [f"  Fast@{bar}: {share:.1%}" for bar, share in summary["fast_at"].items()]
    return "\n".join(lines)
