"""Synthetic tasks at full size on a GPU: eager time and lint verdicts of a sample.

    kernelgym tasks synth --seed 1 --count 1000 --out /tmp/synth.jsonl
    python benchmarks/synth_full_size.py --tasks /tmp/synth.jsonl --sample 200

Times are medians of ten calls between CUDA events, caches warm, TF32 off: a look at whether sizes
are worth measuring, not a measurement. The lint runs at full size, where a reduction over many
elements may have become as good as constant. With ``--device cpu`` lint sizes are used: for trying
the script.
"""

import argparse
import statistics
import time
from collections import Counter
from pathlib import Path

import torch

from kernelgym.errors import TaskError
from kernelgym.judge.reference import Reference
from kernelgym.schema import Task
from kernelgym.tasks.lint import lint_task
from kernelgym.tasks.synth.record import Scale, SynthTask, read_records
from record import write

RESULT = Path(__file__).resolve().parent / "results" / "synth-full-size-2026-11-30.json"
SHORTEST_MS, LONGEST_MS = 0.05, 20.0


def sample(path: Path, count: int) -> list[SynthTask]:
    """Evenly spread over the file."""
    records = list(read_records(path))
    step = max(1, len(records) // count)
    return records[::step][:count]


def eager_ms(task: Task, device: str) -> float:
    reference = Reference(task.reference, task.entry_point, dtype=torch.float32, device=device)
    model = reference.instantiate(reference.make_init_arguments(1), 1)
    inputs = reference.make_inputs(2)
    times = []
    for call in range(13):
        started = time.perf_counter()
        if device != "cpu":
            events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
            events[0].record()
        reference.call(model, "eval", inputs, 3)
        if device != "cpu":
            events[1].record()
            events[1].synchronize()
        spent = (
            (time.perf_counter() - started) * 1e3
            if device == "cpu"
            else events[0].elapsed_time(events[1])
        )
        if call >= 3:
            times.append(spent)
    return statistics.median(times)


def look(record: SynthTask, device: str, scale: Scale) -> dict[str, object]:
    task = record.task("base", scale)
    row: dict[str, object] = {"task": record.name, "category": record.category}
    try:
        row["eager_ms"] = round(eager_ms(task, device), 4)
    except TaskError as error:
        row["fault"] = str(error)[:300]
        return row
    report = lint_task(task, device=device, whole=False)
    row |= {
        "ok": report.ok,
        "findings": [finding.id for finding in report.findings],
        "margin": report.margin,
    }
    if device != "cpu":
        torch.cuda.empty_cache()
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", type=Path, required=True)
    parser.add_argument("--sample", type=int, default=200)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--out", type=Path, default=RESULT)
    arguments = parser.parse_args()
    scale: Scale = "lint" if arguments.device == "cpu" else "full"
    rows = [look(r, arguments.device, scale) for r in sample(arguments.tasks, arguments.sample)]
    times = [row["eager_ms"] for row in rows if "eager_ms" in row]
    inside = [ms for ms in times if SHORTEST_MS <= ms <= LONGEST_MS]  # type: ignore[operator]
    device = "cpu" if arguments.device == "cpu" else torch.cuda.get_device_name()
    body = {
        "device": device,
        "tasks": len(rows),
        "ran": len(times),
        "between_0.05_and_20_ms": len(inside),
        "eager_ms_deciles": statistics.quantiles(times, n=10),  # type: ignore[type-var]
        "trusted": sum(bool(row.get("ok")) for row in rows),
        "findings": dict(Counter(f for row in rows for f in row.get("findings", []))),  # type: ignore[attr-defined]
        "rows": rows,
    }
    write(arguments.out, "synthetic tasks at full size", body)


if __name__ == "__main__":
    main()
