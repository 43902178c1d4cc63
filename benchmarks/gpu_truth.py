"""Does the clock say what is so? Known lengths, known shares, known cheats, noisy neighbours.

    python benchmarks/gpu_truth.py --out DIR [--budget-s 540] [--only ...] [--seen DIR,...]
        [--workers 8] [--dry-run] [--summary]

    clocks    spin kernels of known length against marks, events and CUPTI
    copy      a copy kernel as the judge times it, and the bandwidth measured directly
    coverage  fused, lazy, and linear + own sum: shares, against ``ncu``, events and ablation
    tricks    each timer trick beside its honest twin
    spinner   evaluations beside candidates that spin on the GPU, or on all cores, while prepared
    repeats   ten candidates, twenty times each

Everything but ``clocks`` goes through whole evaluations. Rows: ``DIR/SECTION.jsonl``; result:
``DIR/gpu_truth.json``. A repeated call adds what is missing; ``tricks``, ``coverage`` and
``spinner`` add further rounds.

Not covered: throughput, and the references against themselves (`gpu_aa.py`).
"""

import argparse
import asyncio
import json
import random
import sys
import time
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))  # where it is not installed

import gpu_truth_direct as direct
import gpu_truth_summary
import gpu_truth_tricks as tricks
from gpu_throughput_children import Runner
from gpu_throughput_lanes import Job, Rows, host_for, run_jobs
from gpu_throughput_tasks import (
    DIRECTORY,
    FULL,
    MEMORY_MB,
    SMALL,
    Entry,
    submission,
    tags,
    task_of,
    unique,
)
from kernelgym.schema import Submission
from kernelgym.worker.host import EvaluationHost

LIMITS_S = {
    "clocks": 60.0,
    "copy": 45.0,
    "coverage": 90.0,
    "tricks": 60.0,
    "spinner": 110.0,
    "repeats": 150.0,
}
LIMIT_S = 60.0
SPINS_US = (20, 50, 100, 500, 2000, 10_000, 50_000)
COPY = Entry("small_copy", "small/copy", "copy", 2.0)
SHARES = (
    Entry("small_softmax", "small/softmax", "fused", 0.05),
    Entry("fused_mlp", "small/mlp", "fused", 0.1),
    Entry("lazy_mlp", "small/mlp", "lazy", 0.1),
    Entry("linear_own_sum", "small/linear_sum", "part", 0.1),
)
LAZY_NAMES = ("fused_gemm_gelu_gemm", "ampere_sgemm_128x64_tn", "vectorized_elementwise", "k")
"""Names that the lazy candidate gives its kernel; none may move its share."""
SOFTMAX = SMALL[0]
REPEATED = (*SMALL, *(e for e in FULL if e.candidate in ("linear_gelu_softmax", "diagonal_matmul")))
REPEATS = 20


class Bench:
    """What the sections have in common."""

    def __init__(self, section: str, arguments: argparse.Namespace, ends: float) -> None:
        self.section, self.arguments, self.ends = section, arguments, ends
        self.dry = arguments.dry_run
        self.rows = Rows(Path(arguments.out) / f"{section}.jsonl")
        self.round = 1 + max((row.get("round", 0) for row in self.rows.rows), default=-1)
        self.tags = tags(section)

    def facts(self, entry: Entry, **more: object) -> dict:
        known = {"section": self.section, "round": self.round, "candidate": entry.candidate}
        return known | {"problem": entry.problem, "kind": entry.kind} | more

    def honest(self, entry: Entry) -> Submission:
        task = task_of(entry.problem, self.arguments.root, dry_run=self.dry)
        return submission(entry, task, next(self.tags), LIMIT_S)

    def other(self, entry: Entry, source: str) -> Submission:
        """Another source for the task of an entry."""
        sent = self.honest(entry)
        return Submission(
            task=sent.task, source=unique(source, next(self.tags)), timeout_s=LIMIT_S,
            memory_mb=MEMORY_MB,
        )  # fmt: skip

    def host(self, workers: int) -> EvaluationHost:
        return host_for("cpu" if self.dry else "cuda:0", workers)

    async def run(self, jobs: list[Job], lanes: int = 1, *, profile: bool = False) -> None:
        async with self.host(lanes) as host:
            await run_jobs(
                host, jobs, self.rows, lanes=lanes, ends=self.ends, limit_s=LIMIT_S,
                profile=profile,
            )  # fmt: skip

    def keep(self, name: str, found: object) -> None:
        """Data that is no row of an evaluation."""
        (Path(self.arguments.out) / f"{name}.data.json").write_text(json.dumps(found, default=str))


def source_of(entry: Entry) -> str:
    return (DIRECTORY / f"{entry.candidate}.py").read_text()


async def clocks(bench: Bench) -> None:
    import gpu_clocks
    from gpu_world import World

    world = World(bench.dry)
    gpu_clocks.SPINS_US = SPINS_US[:2] if bench.dry else SPINS_US
    found = {"cupti": gpu_clocks.cupti_truth(world), "empty": gpu_clocks.armed_empty(world)}
    bench.keep("clocks", found)
    for spin_us in gpu_clocks.SPINS_US:
        if time.monotonic() < bench.ends:
            found[f"spin {spin_us} us"] = gpu_clocks.armed_spin(world, spin_us)
            bench.keep("clocks", found)


async def copy(bench: Bench) -> None:
    bench.keep("copy", direct.measured("copy", dry_run=bench.dry))
    turns = [(bench.facts(COPY), bench.honest(COPY)) for _ in range(1 if bench.dry else 5)]
    await bench.run([Job(COPY.problem, COPY.gib, turns)])


async def coverage(bench: Bench) -> None:
    found = {name: direct.measured(name, dry_run=bench.dry) for name in ("parts", "ablated", "ncu")}
    bench.keep("coverage", found)
    jobs = []
    for entry in SHARES[:1] if bench.dry else SHARES:
        turns = [(bench.facts(entry), bench.honest(entry)) for _ in range(2)]
        if entry.kind == "lazy":
            for name in LAZY_NAMES:
                source = source_of(entry).replace("fused_gemm_gelu_gemm_kernel", f"{name}_kernel")
                turns.append((bench.facts(entry, name=name), bench.other(entry, source)))
            dummy = source_of(entry).replace("y + bias", "y + self.bias * self.gain")
            facts = bench.facts(entry, name="dummy launch") | {"kind": "dummy"}
            turns.append((facts, bench.other(entry, dummy)))
        jobs.append(Job(entry.problem, entry.gib, turns))
    await bench.run(jobs, profile=True)


async def trick(bench: Bench) -> None:
    """Twin, trick, twin, trick...: what drifts touches both."""
    turns, honest = [], source_of(SOFTMAX)
    for _ in range(1 if bench.dry else 2):
        for name, code in list(tricks.TRICKS.items())[: 2 if bench.dry else None]:
            turns.append((bench.facts(SOFTMAX, trick=""), bench.honest(SOFTMAX)))
            sent = bench.other(SOFTMAX, tricks.behind(honest, code))
            turns.append((bench.facts(SOFTMAX, trick=name), sent))
    await bench.run([Job(SOFTMAX.problem, SOFTMAX.gib, turns)])


async def spinner(bench: Bench) -> None:
    """Quiet, GPU spinner, quiet, CPU spinner, quiet; the same evaluations in each phase."""
    lanes = 2 if bench.dry else bench.arguments.workers
    phases = ["quiet", "gpu_spinner", "quiet", "cpu_spinner", "quiet"]
    phases = ["quiet", "cpu_spinner"] if bench.dry else phases
    length = max(3.0, (bench.ends - time.monotonic() - 12.0) / len(phases))
    length = min(length, 6.0 if bench.dry else 18.0)
    async with bench.host(lanes + 1) as host:
        for number, phase in enumerate(phases):
            ends = min(bench.ends, time.monotonic() + length)
            work = [(_steady(bench, phase, number, lanes), lanes)]
            if phase != "quiet":
                work.append((_spinning(bench, phase, number), 1))
            await asyncio.gather(*(
                run_jobs(host, jobs, bench.rows, lanes=count, ends=ends, limit_s=LIMIT_S,
                         grace_s=12.0)
                for jobs, count in work
            ))  # fmt: skip


def _steady(bench: Bench, phase: str, number: int, lanes: int) -> Iterator[Job]:
    """Small tasks, one a lane, as long as the phase lasts."""
    for entry in cycle(SMALL[:lanes]):
        facts = bench.facts(entry, phase=phase, number=number)
        yield Job(entry.problem, entry.gib, [(facts, bench.honest(entry)) for _ in range(2)])


def _spinning(bench: Bench, phase: str, number: int) -> Iterator[Job]:
    code = tricks.SPINNERS[phase].replace("+ 8", "+ 1") if bench.dry else tricks.SPINNERS[phase]
    source = tricks.behind(source_of(SOFTMAX), code)
    while True:
        facts = bench.facts(SOFTMAX, phase=phase, number=number) | {"candidate": phase}
        yield Job("spinner", SOFTMAX.gib, [(facts, bench.other(SOFTMAX, source))])


async def repeats(bench: Bench) -> None:
    """Every candidate once a round, in random order, with a judge of its own."""
    done = {e.candidate: sum(r["candidate"] == e.candidate for r in bench.rows.rows)
            for e in REPEATED}  # fmt: skip
    entries, jobs = SMALL[:1] if bench.dry else REPEATED, []
    for number in range(2 if bench.dry else REPEATS):
        left = [entry for entry in entries if done[entry.candidate] <= number]
        random.shuffle(left)
        for entry in left:
            turn = (bench.facts(entry, repeat=number), bench.honest(entry))
            jobs.append(Job(entry.problem, entry.gib, [turn], fresh=True))
    await bench.run(jobs, lanes=1 if bench.dry else 4)


SECTIONS: dict[str, Callable] = {
    "clocks": clocks, "copy": copy, "coverage": coverage, "tricks": trick, "spinner": spinner,
    "repeats": repeats,
}  # fmt: skip


async def run_section(section: str, arguments: argparse.Namespace, ends: float) -> None:
    await SECTIONS[section](Bench(section, arguments, ends))


if __name__ == "__main__":
    runner = Runner("gpu_truth", __file__, LIMITS_S, gpu_truth_summary.summarise)
    sys.exit(runner.main(run_section))
