"""Synthetic tasks at full size on a GPU: eager time and lint verdicts of a sample.

    kernelgym tasks synth --seed 1 --count 400 --out synth.jsonl
    python benchmarks/synth_full_size.py --tasks synth.jsonl --sample 200 --rows rows.jsonl

Times are medians of ten calls between CUDA events, caches warm: a look at whether sizes are worth
measuring, not a measurement. The lint runs at full size, where a reduction over many elements may
have become as good as constant. With ``--device cpu`` lint sizes are used: for trying the script.

Tasks run in a child process, which is replaced when it dies, hangs or has broken its context. Rows
are kept in ``--rows`` as they come: after ``--budget-s`` the result is written from what is there,
and the same command goes on where it stopped. Exit code 3 while tasks are missing.
"""

import argparse
import contextlib
import json
import multiprocessing
import statistics
import sys
import time
from collections import Counter
from multiprocessing.connection import Connection
from pathlib import Path

from kernelgym.tasks.synth.record import Scale, SynthTask, read_records
from record import write

RESULT = Path(__file__).resolve().parent / "results" / "synth-full-size-2026-12-01.json"
SHORTEST_MS, LONGEST_MS = 0.05, 20.0
PATIENCE_S = 45.0
"""A task that takes longer is a fault; the first one of a child also pays for its start."""
WARM_CALLS, TIMED_CALLS = 3, 10


def sample(path: Path, count: int) -> list[SynthTask]:
    """Evenly spread over the file."""
    records = list(read_records(path))
    step = max(1, len(records) // count)
    return records[::step][:count]


def serve(connection: Connection, device: str) -> None:
    """The child: a record comes in, a row goes out, until None comes."""
    import warnings

    warnings.simplefilter("ignore")
    scale: Scale = "lint" if device == "cpu" else "full"
    while (text := connection.recv()) is not None:
        record = SynthTask.model_validate_json(text)
        connection.send(look(record, device, scale))


def look(record: SynthTask, device: str, scale: Scale) -> dict[str, object]:
    """Time and lint one task."""
    import torch

    from kernelgym.errors import TaskError
    from kernelgym.tasks.lint import lint_task

    task = record.task("base", scale)
    row: dict[str, object] = {
        "task": record.name,
        "category": record.category,
        "difficulty": record.difficulty,
    }
    started = time.monotonic()
    try:
        row |= eager(task.reference, device)
        report = lint_task(task, device=device, whole=False)
        row |= {
            "ok": report.ok,
            "findings": [finding.id for finding in report.findings],
            "margin": report.margin,
        }
    except TaskError as error:
        row["fault"] = f"{error.code}: {error}"[:300]
    except (RuntimeError, torch.OutOfMemoryError) as error:
        row["fault"] = f"{type(error).__name__}: {error}"[:300]
    if device != "cpu":
        with contextlib.suppress(RuntimeError):
            torch.cuda.empty_cache()
    return row | {"seconds": round(time.monotonic() - started, 2)}


def eager(source: str, device: str) -> dict[str, object]:
    """Median time of a call in ms, and bytes of its inputs."""
    import torch

    from kernelgym.judge.reference import Reference

    reference = Reference(source, "Model", dtype=torch.float32, device=device)
    model = reference.instantiate(reference.make_init_arguments(1), 1)
    inputs = reference.make_inputs(2)
    times = []
    for call in range(WARM_CALLS + TIMED_CALLS):
        started = time.perf_counter()
        if device != "cpu":
            events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
            events[0].record()
        reference.call(model, "eval", inputs, 3)
        spent_ms = (time.perf_counter() - started) * 1e3
        if device != "cpu":
            events[1].record()
            events[1].synchronize()
            spent_ms = events[0].elapsed_time(events[1])
        if call >= WARM_CALLS:
            times.append(spent_ms)
    return {"eager_ms": round(statistics.median(times), 4), "input_bytes": inputs.size_bytes}


class Child:
    """The process that runs tasks; started anew when needed."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._context = multiprocessing.get_context("spawn")
        self._process: multiprocessing.process.BaseProcess | None = None
        self._connection: Connection

    def ask(self, record: SynthTask) -> dict[str, object]:
        """The row of one task."""
        if self._process is None or not self._process.is_alive():
            self._connection, theirs = self._context.Pipe()
            self._process = self._context.Process(target=serve, args=(theirs, self._device))
            self._process.start()
            theirs.close()
        why = "hung"
        try:
            self._connection.send(record.model_dump_json())
            if self._connection.poll(PATIENCE_S):
                row: dict[str, object] = self._connection.recv()
                if "CUDA error" in str(row.get("fault")):  # its context is of no more use
                    self.end()
                return row
        except (EOFError, OSError):
            why = "died"
        self.end()
        return {"task": record.name, "category": record.category, "fault": f"the process {why}"}

    def end(self) -> None:
        """Kill it."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process = None


def read_rows(path: Path) -> dict[str, dict[str, object]]:
    """Rows of earlier runs, by task; a line that was cut off does not count."""
    found: dict[str, dict[str, object]] = {}
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    for line in lines:
        with contextlib.suppress(ValueError):
            row = json.loads(line)
            found[row["task"]] = row
    return found


def summary(rows: list[dict[str, object]], asked: int, device: str) -> dict[str, object]:
    """Numbers of all rows."""
    times = [row["eager_ms"] for row in rows if isinstance(row.get("eager_ms"), float)]
    inside = [ms for ms in times if SHORTEST_MS <= ms <= LONGEST_MS]  # type: ignore[operator]
    return {
        "device": device,
        "asked": asked,
        "tasks": len(rows),
        "ran": len(times),
        "between_0.05_and_20_ms": len(inside),
        "below_1_ms": sum(ms < 1.0 for ms in times),  # type: ignore[operator]
        "eager_ms_deciles": statistics.quantiles(times, n=10) if times[1:] else times,  # type: ignore[type-var]
        "trusted": sum(bool(row.get("ok")) for row in rows),
        "faults": [row for row in rows if "fault" in row],
        "findings": dict(Counter(f for row in rows for f in row.get("findings", []))),  # type: ignore[attr-defined]
        "seconds": round(sum(float(str(row.get("seconds", 0))) for row in rows), 1),
        "rows": rows,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=Path, required=True)
    parser.add_argument("--sample", type=int, default=200)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--rows", type=Path, default=Path("synth-full-size-rows.jsonl"))
    parser.add_argument("--budget-s", type=float, default=110.0)
    parser.add_argument("--out", type=Path, default=RESULT)
    arguments = parser.parse_args()
    ends = time.monotonic() + arguments.budget_s
    records = sample(arguments.tasks, arguments.sample)
    rows = read_rows(arguments.rows)
    arguments.rows.parent.mkdir(parents=True, exist_ok=True)
    child = Child(arguments.device)
    try:
        with arguments.rows.open("a", encoding="utf-8") as file:
            for record in records:
                if record.name in rows or time.monotonic() > ends:
                    continue
                row = rows[record.name] = child.ask(record)
                file.write(json.dumps(row) + "\n")
                file.flush()
    finally:
        child.end()
    done = [rows[record.name] for record in records if record.name in rows]
    body = summary(done, len(records), arguments.device)
    write(arguments.out, "synthetic tasks at full size", body)
    print({name: value for name, value in body.items() if name != "rows"}, file=sys.stderr)
    return 0 if len(done) == len(records) else 3


if __name__ == "__main__":
    sys.exit(main())
