"""The task lint on KernelBench problems that are known to be faulty, and on some that are not.

    python benchmarks/lint_kernelbench.py --root KernelBench --level 2

Sizes are cut for a CPU; each entry names the reduction that was used. Two protocols: ``standard``
(ours, relative to the output's scale) says which problems we would quarantine, ``kernelbench``
(absolute 1e-2) which accept a trivial answer there.
"""

import argparse
import sys
from pathlib import Path

from kernelgym.schema import Protocol, Task
from kernelgym.tasks.kernelbench import kernelbench_root, kernelbench_task, problem_files
from kernelgym.tasks.lint_jail import LintJail
from kernelgym.tasks.lint_report import LintReport
from kernelgym.tasks.reduce import reductions
from record import write

RESULT = Path(__file__).resolve().parent / "results" / "lint-kernelbench-2026-11-30.json"
KNOWN = {1: (19, 20, 23, 31, 32), 2: (9, 23, 36, 38, 80, 83), 3: (3, 7, 11, 12, 18, 28, 35)}
"""Problems that accept a trivial answer under an absolute tolerance of 1e-4."""
CONTROLS = {1: (1, 26, 40, 50, 67, 97), 2: (1, 12, 18, 40, 52, 76), 3: (1, 43, 44)}
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


def numbers(levels: list[int], root: Path, everything: bool) -> list[tuple[int, int]]:
    if everything:
        files = [(level, path) for level in levels for path in problem_files(root, level)]
        return [(level, int(path.name.partition("_")[0])) for level, path in files]
    return [(level, n) for level in levels for n in (*KNOWN[level], *CONTROLS[level])]


def summary(rows: list[dict[str, object]]) -> dict[str, object]:
    known = [row for row in rows if row["known_faulty"]]
    controls = [row for row in rows if not row["known_faulty"]]
    return {
        "known_faulty": len(known),
        "found_by_kernelbench_protocol": sum(bool(row["kernelbench"]) for row in known),
        "found_by_standard_protocol": sum(bool(row["standard"]) for row in known),
        "controls": len(controls),
        "controls_refused_by_standard_protocol": sum(bool(row["standard"]) for row in controls),
        "problems": rows,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, required=True, help="a KernelBench checkout")
    parser.add_argument("--level", type=int, action="append", choices=(1, 2, 3))
    parser.add_argument("--all", action="store_true", help="every problem of the levels")
    parser.add_argument("--limit-s", type=float, default=600.0)
    parser.add_argument("--out", type=Path, default=RESULT)
    arguments = parser.parse_args()
    root = kernelbench_root(arguments.root)
    rows = []
    with LintJail(fallback=True) as jail:
        for level, number in numbers(arguments.level or [1, 2, 3], root, arguments.all):
            task = kernelbench_task(f"level{level}/{number}", arguments.root)
            row = lint(jail, task, arguments.limit_s, number in KNOWN[level])
            row["known_faulty"] = number in KNOWN[level]
            rows.append(row)
            print(row, file=sys.stderr)
            write(arguments.out, "task lint on KernelBench", summary(rows))


if __name__ == "__main__":
    main()
