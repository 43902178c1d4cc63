"""Statistics of the synthetic tasks: how many, how fast, how varied.

    python benchmarks/synth_statistics.py --count 10000 --benchmark KernelBench/KernelBench \\
        --tasks /tmp/synth.jsonl
    python benchmarks/synth_page.py                   # the page about the committed numbers

Processor time is that of this process and its children; on a shared machine it is the number to
trust, wall time is what this run took.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import statistics
import sys
import time
from collections import Counter
from pathlib import Path

from kernelgym.tasks.synth.generate import Generation, generate
from kernelgym.tasks.synth.record import SynthTask, write_records
from kernelgym.tasks.synth.split import combination
from record import write

ROOT = Path(__file__).resolve().parent
RESULT = ROOT / "results" / "synth-statistics-2026-12-01.json"
HEAVY = {
    "matmul": ("linear", "mm", "bmm"),
    "convolution": ("conv", "depthwise_conv"),
    "attention": ("scaled_dot_product_attention",),
    "reduction": ("mean", "sum", "amax", "amin", "std", "linalg_vector_norm", "logsumexp"),
}


def processor_seconds() -> float:
    """Of this process and of its children, living and waited for."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    living = 0
    for child in multiprocessing.active_children():
        fields = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()
        living += int(fields[11]) + int(fields[12])
    ticks = os.sysconf("SC_CLK_TCK")
    return sum(usage.ru_utime + usage.ru_stime for usage in usages) + living / ticks


class Run:
    """One generation; its state is on disk every 500 candidates, complete or not."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.before, self.started = processor_seconds(), time.monotonic()

    def measure(self) -> None:
        benchmark = self.arguments.benchmark
        made = generate(
            self.arguments.seed,
            self.arguments.count,
            benchmark=Path(benchmark) if benchmark else None,
            workers=self.arguments.workers,
            progress=self.report,
        )
        self.save(made)

    def report(self, made: Generation) -> None:
        if made.candidates % 500 == 0:
            self.save(made)
            seconds = time.monotonic() - self.started
            print(f"{len(made.tasks)} of {made.candidates}, {seconds:.0f} s", file=sys.stderr)

    def save(self, made: Generation) -> None:
        write_records(made.tasks, Path(self.arguments.tasks))
        wall = time.monotonic() - self.started
        numbers = statistics_of(made, self.arguments, wall, processor_seconds() - self.before)
        write(Path(self.arguments.out), "synthetic tasks", numbers)


def statistics_of(
    made: Generation, arguments: argparse.Namespace, wall: float, processor: float
) -> dict[str, object]:
    return {
        "load_average_1min": os.getloadavg()[0],
        "seed": arguments.seed,
        "asked": arguments.count,
        "workers": arguments.workers,
        "wall_seconds": round(wall, 1),
        "processor_seconds": round(processor, 1),
        "tasks_a_processor_second": round(len(made.tasks) / processor, 2),
        "candidates": made.candidates,
        "refused": dict(made.refused.most_common()),
        "configurations_left_out": dict(made.left_out.most_common()),
        "benchmark_files": made.benchmark.files,
        "benchmark_files_without_graph": list(made.benchmark.without_graph),
        **describe(made.tasks),
    }


def describe(tasks: list[SynthTask]) -> dict[str, object]:
    graphs = Counter(task.graph for task in tasks)
    splits: dict[str, set[str]] = {}
    for task in tasks:
        splits.setdefault(combination(task.operators), set()).add(task.split)
    lines = [task.task().reference.count("\n") for task in tasks]
    heavy = Counter(name for task in tasks for name in heavy_kinds(task))
    return {
        "tasks": len(tasks),
        "equal_graphs_share": sum(n - 1 for n in graphs.values()) / len(tasks),
        "heavy_share": sum(1 for task in tasks if heavy_kinds(task)) / len(tasks),
        "with_kind": dict(heavy.most_common()),
        "operator_combinations": len(splits),
        "combinations_in_two_splits": sum(1 for found in splits.values() if len(found) > 1),
        "by_difficulty": counted(str(task.difficulty) for task in tasks),
        "by_category": counted(task.category for task in tasks),
        "by_family": counted(task.family for task in tasks),
        "by_split": counted(task.split for task in tasks),
        "by_configurations": counted(str(len(task.configurations)) for task in tasks),
        "by_operator": counted(kind for task in tasks for kind in set(task.operators)),
        "source_lines": statistics.quantiles(lines, n=10),
    }


def heavy_kinds(task: SynthTask) -> set[str]:
    found = {
        name
        for name, prefixes in HEAVY.items()
        if any(kind.startswith(prefixes) for kind in task.operators)
    }
    return found | ({"attention"} if task.category == "attention" else set())


def counted(values: object) -> dict[str, int]:
    return dict(Counter(values).most_common())  # type: ignore[arg-type]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--benchmark", help="directory of a benchmark to keep clear of")
    parser.add_argument("--tasks", default="synth.jsonl", help="where the tasks go")
    parser.add_argument("--out", default=str(RESULT))
    Run(parser.parse_args()).measure()


if __name__ == "__main__":
    main()
