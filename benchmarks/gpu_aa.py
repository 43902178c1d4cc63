"""The reference as its own candidate: the right answer is known, ``correct`` at a speedup of 1.

    python benchmarks/gpu_aa.py --out DIR [--aa-workers 3] [--beside 8] [--budget-s 540]
        [--only problems,beside,coverage] [--seen DIR,...] [--root KERNELBENCH] [--dry-run]
        [--summary]

Sections: ``problems`` (all 250 KernelBench problems at full size, backend ``torch``), ``beside``
(60 of them drawn once, the largest left out, while ``--beside`` other evaluations run) and
``coverage`` (three small tasks up to 1,000 times each: how often does the 95% interval hold 1?).
Every evaluation has a judge of its own, so that no timing is cached or shared. A problem that has
a row is not run again (one that got over its limit, or met a fault of the gym, is, up to twice).
Rows: ``DIR/SECTION.jsonl``, raw samples included for problems; result: ``DIR/gpu_aa.json`` and
``DIR/gpu_aa_samples.json.gz``.

Not covered: other backends than ``torch``.
"""

import argparse
import asyncio
import functools
import json
import random
import sys
import time
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))  # where it is not installed

import gpu_aa_sizes
import gpu_aa_summary
from gpu_throughput_children import Runner
from gpu_throughput_lanes import Job, Memory, Rows, host_for, run_jobs
from gpu_throughput_tasks import FULL, GIB, SMALL, itself, submission, tags, task_of
from kernelgym.tasks.kernelbench import kernelbench_root, problem_files

LIMITS_S = {"problems": 400.0, "beside": 200.0, "coverage": 400.0}
ORDER_SEED = 250
BESIDE_COUNT = 60
COVERAGE_PROBLEMS = ("small/softmax", "small/gelu", "small/matmul")
COVERAGE_REPEATS = 1000
RETRIED = ("over_limit", "infrastructure", "raised")
TRIES = 2
UNKNOWN_GIB = 8.0
BESIDE_GIB = 0.7
"""What runs beside is smaller than this, so that the problems find room."""
LARGEST_BESIDE_GIB = 12.0
"""Problems that move more than this would have to wait until nothing runs beside them."""


def problems(root: Path | None) -> list[str]:
    """All problems, in one fixed order that mixes levels: a part of them is a fair sample."""
    directory = kernelbench_root(root)
    names = [f"level{n}/{path.stem}" for n in (1, 2, 3) for path in problem_files(directory, n)]
    random.Random(ORDER_SEED).shuffle(names)
    return names


@functools.cache
def _sizes() -> dict[str, dict]:
    path = gpu_aa_sizes.SIZES
    return json.loads(path.read_text())["problems"] if path.exists() else {}


def gib_of(name: str) -> float:
    """Inputs, outputs and parameters."""
    known = _sizes().get(name)
    if known is None:
        return UNKNOWN_GIB
    return (known["input_bytes"] + known["output_bytes"] + known["state_bytes"]) / GIB


def wanted(section: str, names: list[str], rows: list[dict]) -> list[str]:
    """Names still to be run, those never tried first."""
    tries: dict[str, list[str]] = {}
    for row in rows:
        tries.setdefault(row["problem"], []).append(row["outcome"])
    new = [name for name in names if name not in tries]
    again = [n for n, outcomes in tries.items() if n in names and _retry(outcomes)]
    return new + again if section != "coverage" else names


def _retry(outcomes: list[str]) -> bool:
    return len(outcomes) < TRIES and all(outcome in RETRIED for outcome in outcomes)


def jobs(section: str, names: list[str], arguments: argparse.Namespace) -> Iterator[Job]:
    """One problem each, with a judge of its own."""
    names_of_kernels = tags(section)
    for name in names:
        task = task_of(name, arguments.root, dry_run=arguments.dry_run)
        facts = {"section": section, "problem": name}
        turn = (facts, itself(task, next(names_of_kernels), arguments.problem_limit_s))
        gib = 0.05 if arguments.dry_run or name.startswith("small/") else gib_of(name)
        yield Job(name, gib, [turn], fresh=True)


def neighbours(arguments: argparse.Namespace) -> Iterator[Job]:
    """Other evaluations, without end."""
    names, entries = tags("neighbour"), [e for e in FULL if e.gib < BESIDE_GIB] + list(SMALL)
    entries = list(SMALL[:2]) if arguments.dry_run else entries
    for entry in cycle(entries):
        task = task_of(entry.problem, arguments.root, dry_run=arguments.dry_run)
        turns = []
        for _ in range(2):
            facts = {"section": "neighbours", "problem": entry.problem}
            sent = submission(entry, task, next(names), arguments.problem_limit_s)
            turns.append((facts, sent))
        yield Job(entry.problem, entry.gib, turns)


async def run_section(section: str, arguments: argparse.Namespace, ends: float) -> None:
    rows = Rows(Path(arguments.out) / f"{section}.jsonl")
    device = "cpu" if arguments.dry_run else "cuda:0"
    if section == "beside":
        await _beside(arguments, rows, device, ends)
        return
    if section == "coverage":
        names, lanes = _repeats(rows.rows, arguments), arguments.workers
    else:
        names, lanes = wanted(section, _names(arguments), rows.rows), arguments.aa_workers
    lanes = min(2, lanes) if arguments.dry_run else lanes
    async with host_for(device, lanes) as host:
        await run_jobs(
            host, jobs(section, names, arguments), rows, lanes=lanes, ends=ends,
            limit_s=arguments.problem_limit_s, samples=section == "problems",
        )  # fmt: skip


def _names(arguments: argparse.Namespace) -> list[str]:
    return ["level1/19_ReLU", "level1/26_GELU_"] if arguments.dry_run else problems(arguments.root)


def _repeats(rows: list[dict], arguments: argparse.Namespace) -> list[str]:
    """The three tasks in turn, until each has its repeats."""
    repeats = 2 if arguments.dry_run else COVERAGE_REPEATS
    done = {name: sum(r["problem"] == name for r in rows) for name in COVERAGE_PROBLEMS}
    return [n for i in range(repeats) for n in COVERAGE_PROBLEMS if i >= done[n]]


async def _beside(arguments: argparse.Namespace, rows: Rows, device: str, ends: float) -> None:
    """Problems on one lane, others on the rest, until the problems or the time are at an end."""
    fitting = [n for n in _names(arguments) if gib_of(n) <= LARGEST_BESIDE_GIB or arguments.dry_run]
    names = wanted("beside", fitting[:BESIDE_COUNT], rows.rows)
    others = Rows(Path(arguments.out) / "neighbours.jsonl")
    beside = 1 if arguments.dry_run else arguments.beside
    memory = Memory()
    async with host_for(device, beside + 1) as host:
        work = run_jobs(
            host, neighbours(arguments), others, lanes=beside, ends=ends,
            limit_s=arguments.problem_limit_s, memory=memory,
        )  # fmt: skip
        noise = asyncio.create_task(work)
        if not arguments.dry_run:
            await asyncio.sleep(3.0)  # so that the first problem has its neighbours, too
        started = time.monotonic()
        await run_jobs(
            host, jobs("beside", names, arguments), rows, lanes=1, ends=ends,
            limit_s=arguments.problem_limit_s, samples=True, memory=memory,
        )  # fmt: skip
        print(f"beside: {time.monotonic() - started:.0f} s", file=sys.stderr)
        noise.cancel()
        await asyncio.gather(noise, return_exceptions=True)


def _extra(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--aa-workers", type=int, default=3, help="problems side by side")
    parser.add_argument("--beside", type=int, default=8, help="others while `beside` runs")
    parser.add_argument("--problem-limit-s", type=float, default=60.0)


if __name__ == "__main__":
    runner = Runner("gpu_aa", __file__, LIMITS_S, gpu_aa_summary.summarise, _extra)
    sys.exit(runner.main(run_section))
