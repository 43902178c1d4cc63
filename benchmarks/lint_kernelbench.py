"""The task lint on KernelBench: problems known to be faulty, a hundred healthy ones, all others.

    python benchmarks/lint_kernelbench.py --root KernelBench               # known and healthy
    python benchmarks/lint_kernelbench.py --root KernelBench --all

Sizes are cut for a CPU; each row names the reduction that was used. Two protocols: ``standard``
(ours, relative to the output's scale) says which problems we would quarantine, ``kernelbench``
(absolute 1e-2) which accept a trivial answer there. The healthy ones were listed before
(`lint_healthy.json`). Rows are written as they come; the same command goes on where it stopped.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path

from kernelgym.schema import Protocol, Task
from kernelgym.tasks.kernelbench import kernelbench_root, kernelbench_task, problem_files
from kernelgym.tasks.lint_jail import LintJail
from kernelgym.tasks.lint_report import LintReport
from kernelgym.tasks.reduce import reductions
from record import write

RESULT = Path(__file__).resolve().parent / "results" / "lint-kernelbench-2026-12-01.json"
KNOWN = {1: (19, 20, 23, 31, 32), 2: (9, 23, 36, 38, 80, 83), 3: (3, 7, 11, 12, 18, 28, 35)}
"""Problems that accept a trivial answer under an absolute tolerance of 1e-4."""
HEALTHY = Path(__file__).resolve().parent / "lint_healthy.json"
PROTOCOLS: tuple[Protocol, ...] = ("standard", "kernelbench")


def faults(report: LintReport) -> list[str]:
    return [finding.id for finding in report.findings if finding.severity == "fault"]


def lint(jail: LintJail, task: Task, limit_s: float, insist: bool) -> dict[str, object]:
    """The first reduction under which the problem runs, and what both protocols say of it.

    ``insist``: where nothing is found, look at the weaker reductions as well.
    """
    row: dict[str, object] = {}
    for name, source in reductions(task.reference):
        small = task.model_copy(update={"reference": source})
        first = jail.lint(small, protocol=PROTOCOLS[0], limit_s=limit_s)
        found = faults(first)
        if any(fault.startswith("reference_") for fault in found):
            continue
        second = jail.lint(small, protocol=PROTOCOLS[1], limit_s=limit_s)
        warnings = [f.id for f in first.findings if f.severity == "warning"]
        row = {
            "problem": task.name,
            "reduction": name,
            "standard": found,
            "kernelbench": faults(second),
            "warnings": sorted(set(warnings)),
            "rms": first.rms,
            "noise": first.noise,
            "margin": first.margin,
        }
        if not insist or found or row["kernelbench"]:
            return row
    return row or {"problem": task.name, "reduction": None, "standard": found, "kernelbench": []}


def healthy() -> dict[int, list[int]]:
    """The list, by level."""
    problems = json.loads(HEALTHY.read_text(encoding="utf-8"))["problems"]
    return {int(level): numbers for level, numbers in problems.items()}


def problems(levels: list[int], root: Path, everything: bool) -> list[tuple[int, int]]:
    """Level and number: the known ones first, then the healthy ones, then the others."""
    good = healthy()
    chosen = [(level, n) for level in levels for n in KNOWN[level]]
    chosen += [(level, n) for level in levels for n in good[level]]
    if everything:
        files = [(level, path) for level in levels for path in problem_files(root, level)]
        chosen += [(level, int(path.name.partition("_")[0])) for level, path in files]
    return list(dict.fromkeys(chosen))


def summary(rows: list[dict[str, object]]) -> dict[str, object]:
    """Numbers by group; ``ran`` leaves out what no reduction made fit a CPU."""
    ran = [row for row in rows if row["reduction"] is not None]
    known = [row for row in ran if row["group"] == "known faulty"]
    good = [row for row in ran if row["group"] == "healthy"]

    def ids(found: list[dict[str, object]], protocol: str, *, faulty: bool) -> list[object]:
        return [row["id"] for row in found if bool(row[protocol]) is faulty]

    return {
        "load_average_1min": os.getloadavg()[0],
        "linted": len(rows),
        "ran": len(ran),
        "did_not_run": [row["id"] for row in rows if row["reduction"] is None],
        "known_faulty": len(known),
        "known_found_by_kernelbench_protocol": len(ids(known, "kernelbench", faulty=True)),
        "known_missed_by_kernelbench_protocol": ids(known, "kernelbench", faulty=False),
        "known_found_by_standard_protocol": ids(known, "standard", faulty=True),
        "healthy": len(good),
        "healthy_trusted": len(ids(good, "standard", faulty=False)),
        "healthy_refused": ids(good, "standard", faulty=True),
        "quarantined_by_standard_protocol": ids(ran, "standard", faulty=True),
        "quarantined_by_kernelbench_protocol": ids(ran, "kernelbench", faulty=True),
        "problems": rows,
    }


def earlier(path: Path) -> list[dict[str, object]]:
    """Rows of a run that was stopped."""
    return json.loads(path.read_text(encoding="utf-8"))["problems"] if path.exists() else []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, required=True, help="a KernelBench checkout")
    parser.add_argument("--level", type=int, action="append", choices=(1, 2, 3))
    parser.add_argument("--all", action="store_true", help="every problem of the levels")
    parser.add_argument("--limit-s", type=float, default=300.0)
    parser.add_argument("--out", type=Path, default=RESULT)
    arguments = parser.parse_args()
    root = kernelbench_root(arguments.root)
    rows = earlier(arguments.out)
    done = {row["id"] for row in rows}
    good = healthy()
    with LintJail(fallback=True) as jail:
        for level, number in problems(arguments.level or [1, 2, 3], root, arguments.all):
            name = f"level{level}/{number}"
            if name in done:
                continue
            task = kernelbench_task(name, arguments.root)
            started = time.monotonic()
            row = {"id": name} | lint(jail, task, arguments.limit_s, number in KNOWN[level])
            row["group"] = (
                "known faulty"
                if number in KNOWN[level]
                else "healthy"
                if number in good[level]
                else "other"
            )
            row["seconds"] = round(time.monotonic() - started, 1)
            rows.append(row)
            print(row, file=sys.stderr, flush=True)
            write(arguments.out, "task lint on KernelBench", summary(rows))


if __name__ == "__main__":
    main()
