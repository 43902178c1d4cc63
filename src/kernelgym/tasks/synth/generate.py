"""The pipeline: number after number becomes a draft, is run in a child, and is kept or refused.

Candidate ``n`` of a seed depends on ``n`` alone, and candidates are decided in order, so the result
is the same for any number of workers. What decides is exact except for the lint, which compares
floating-point numbers; it refuses whatever comes near its limit (`examine.SMALLEST_MARGIN`), so
that another machine's rounding does not change the answer.

This process imports no torch; its children do.
"""

from __future__ import annotations

import multiprocessing
from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelgym.tasks.synth.compose import Draft, compose
from kernelgym.tasks.synth.contamination import (
    NOTHING,
    Benchmark,
    benchmark_files,
    joined,
    read_benchmark,
    tree_hash,
)
from kernelgym.tasks.synth.record import SynthTask

if TYPE_CHECKING:
    from kernelgym.tasks.synth.examine import Examined

BATCH = 16
"""Drafts handed to a child at once."""
PATIENCE = 2000
"""Give up after this many candidates in a row that bring nothing new."""


@dataclass
class Generation:
    """What a run made, and what it refused."""

    tasks: list[SynthTask] = field(default_factory=list)
    candidates: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    """Reason to number: ``no_program``, ``duplicate``, ``contaminated``, or what the lint said."""
    left_out: Counter[str] = field(default_factory=Counter)
    """Optional configurations that were dropped from tasks that are kept."""
    benchmark: Benchmark = NOTHING


@dataclass
class _Batch:
    """Candidates in order; those without a draft have a reason instead."""

    entries: list[tuple[int, str]] = field(default_factory=list)
    drafts: list[Draft] = field(default_factory=list)


def generate(
    seed: int,
    count: int,
    *,
    difficulties: range = range(1, 9),
    benchmark: Path | None = None,
    workers: int = 2,
    progress: Callable[[Generation], None] = lambda _: None,
) -> Generation:
    """Make ``count`` tasks, or fewer where no more distinct ones turn up.

    ``workers``: child processes; with 0 everything runs in this process, which then needs torch.
    """
    made = Generation()
    if benchmark is not None:
        with _pool(workers) as pool:  # of its own: what a benchmark leaves in memory goes with it
            made.benchmark = _read(pool, benchmark, max(1, 4 * workers))
    with _pool(workers) as pool:
        _decide(made, count, _examined(pool, seed, difficulties, ahead=2 * workers), progress)
        pool.shutdown(cancel_futures=True)
    return made


def _decide(
    made: Generation,
    count: int,
    candidates: Iterator[tuple[str, Examined | None]],
    progress: Callable[[Generation], None],
) -> None:
    graphs: set[str] = set()
    fruitless = 0
    for reason, examined in candidates:
        if len(made.tasks) >= count or fruitless > PATIENCE:
            return
        made.candidates += 1
        refusal = reason or _refusal(examined, graphs, made.benchmark)
        fruitless = fruitless + 1 if refusal else 0
        if refusal:
            made.refused[refusal] += 1
        elif examined is not None:
            graphs.add(examined.record.graph)
            made.tasks.append(examined.record)
            made.left_out.update(examined.left_out)
        progress(made)


def _read(pool: Executor, directory: Path, parts: int) -> Benchmark:
    """The benchmark's fingerprints, read by all children at once."""
    files = benchmark_files(directory)
    shares = [files[start::parts] for start in range(parts)]
    return joined(f.result() for f in [pool.submit(read_benchmark, directory, s) for s in shares])


class _Here(Executor):
    """Runs what it is given at once, in this process."""

    def submit(self, function: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(function(*args, **kwargs))
        return future


def _pool(workers: int) -> Executor:
    if workers == 0:
        return _Here()
    return ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _prepare)


def _prepare() -> None:
    from kernelgym.tasks.synth.examine import prepare_process

    prepare_process()


def _examine(drafts: list[Draft]) -> list[Examined]:
    from kernelgym.tasks.synth.examine import examine_all

    return examine_all(drafts)


def _refusal(examined: Examined | None, graphs: set[str], benchmark: Benchmark) -> str:
    if examined is None or examined.reasons:
        return examined.reasons[0] if examined else "no_program"
    if examined.record.graph in graphs:
        return "duplicate"
    if benchmark.contains(tree_hash(examined.record.model), examined.record.graph):
        return "contaminated"
    return ""


def _examined(
    pool: Executor, seed: int, difficulties: range, *, ahead: int
) -> Iterator[tuple[str, Examined | None]]:
    """Candidates in order, some batches ahead of who asks: a reason, or what running it showed."""
    waiting: deque[tuple[_Batch, Future[list[Examined]]]] = deque()
    batches = _batches(seed, difficulties)
    while True:
        while len(waiting) < max(1, ahead):
            batch = next(batches)
            waiting.append((batch, pool.submit(_examine, batch.drafts)))
        batch, future = waiting.popleft()
        results = iter(future.result())
        for _, reason in batch.entries:
            yield reason, None if reason else next(results)


def _batches(seed: int, difficulties: range) -> Iterator[_Batch]:
    """Candidates from number 0 on; of several with one sketch only the first is run."""
    sketches: set[str] = set()
    number = 0
    while True:
        batch = _Batch()
        while len(batch.drafts) < BATCH and len(batch.entries) < 20 * BATCH:
            draft = compose(seed, number, difficulties)
            if draft is None:
                batch.entries.append((number, "no_program"))
            elif draft.sketch in sketches:
                batch.entries.append((number, "duplicate"))
            else:
                sketches.add(draft.sketch)
                batch.drafts.append(draft)
                batch.entries.append((number, ""))
            number += 1
        yield batch
