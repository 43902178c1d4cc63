"""The statistics page of the synthetic tasks, with its figures, from a committed result.

    python benchmarks/synth_page.py

Writes docs/synthetic-tasks.md and docs/images/synth-*.svg; nothing on the page is typed by hand.
With a result of `synth_full_size.py` the page holds times and lint verdicts at full size, too.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent
RESULTS = ROOT / "results"
STATISTICS = RESULTS / "synth-statistics-2026-12-01.json"
FULL_SIZE = RESULTS / "synth-full-size-2026-12-01.json"
PAGE = ROOT.parent / "docs" / "synthetic-tasks.md"
IMAGES = ROOT.parent / "docs" / "images"
BLUE = "#0072b2"

Numbers = dict[str, Any]


def draw_figures(numbers: Numbers) -> None:
    """Shape of the set, and its operators."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "kernelgym"
    from matplotlib import pyplot

    IMAGES.mkdir(parents=True, exist_ok=True)
    figure, axes = pyplot.subplots(1, 3, figsize=(10, 3.2), layout="constrained")
    panels = (("difficulty", "by_difficulty"), ("category", "by_category"), ("input", "by_family"))
    for axis, (title, key) in zip(axes, panels, strict=True):
        counts = numbers[key]
        names = sorted(counts) if key == "by_difficulty" else list(counts)[::-1]
        plot = axis.bar if key == "by_difficulty" else axis.barh
        plot(names, [counts[name] for name in names], color=BLUE)
        axis.set_title(f"{title}, n = {sum(counts.values()):,}", fontsize=9)
        axis.tick_params(labelsize=8)
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(IMAGES / "synth-shape.svg", metadata={"Date": None})
    figure, axis = pyplot.subplots(figsize=(10, 3.2), layout="constrained")
    counts = dict(list(numbers["by_operator"].items())[:40])
    axis.bar(list(counts), list(counts.values()), color=BLUE)
    axis.set_title("tasks that hold an operator, the 40 most common", fontsize=9)
    axis.tick_params(axis="x", labelrotation=90, labelsize=7)
    axis.tick_params(axis="y", labelsize=8)
    axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(IMAGES / "synth-operators.svg", metadata={"Date": None})


def draw_times(numbers: Numbers) -> None:
    """Eager times at full size."""
    from matplotlib import pyplot

    times = [row["eager_ms"] for row in numbers["rows"] if "eager_ms" in row]
    edges = [0.01 * 2 ** (step / 2) for step in range(25)]
    figure, axis = pyplot.subplots(figsize=(10, 2.8), layout="constrained")
    axis.hist(times, bins=edges, color=BLUE)
    axis.set_xscale("log")
    axis.axvspan(0.05, 20.0, color="#009e73", alpha=0.12)
    axis.set_title(f"eager ms a call at full size, {numbers['device']}, n = {len(times)}")
    axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(IMAGES / "synth-times.svg", metadata={"Date": None})


def page(numbers: Numbers, full: Numbers | None) -> str:
    """Markdown."""
    machine, lines = numbers["machine"], numbers["source_lines"]
    configurations = [f"{n:,} with {name}" for name, n in numbers["by_configurations"].items()]
    heavy = f"{100 * numbers['heavy_share']:.1f}% ({listed(numbers['with_kind'])})"
    speed = numbers["tasks_a_processor_second"]
    rows = {
        "tasks, of candidates drawn": f"{numbers['tasks']:,} of {numbers['candidates']:,}",
        "wall time": f"{numbers['wall_seconds']:.0f} s",
        "processor time": f"{numbers['processor_seconds']:.0f} s, {speed:.1f} tasks a second",
        "with a matrix product, convolution, attention or reduction": heavy,
        "equal operator graphs": f"{100 * numbers['equal_graphs_share']:.2f}%",
        "sets of operators": f"{numbers['operator_combinations']:,}",
        "sets of operators in two splits": str(numbers["combinations_in_two_splits"]),
        "split": listed(numbers["by_split"]),
        "configurations a task": ", ".join(configurations),
        "lines of a reference, 10% / 50% / 90%": " / ".join(f"{lines[n]:.0f}" for n in (0, 4, 8)),
        "files of the benchmark kept clear of": str(numbers["benchmark_files"]),
    }
    head = (
        "# Synthetic tasks in numbers\n\n"
        f"Made by `benchmarks/synth_statistics.py` on {numbers['date']}: {machine['processor']},\n"
        f"{machine['cores']} cores, {numbers['workers']} worker processes, torch"
        f" {numbers['versions']['torch']}, load average at the end"
        f" {numbers['load_average_1min']:.1f}.\n"
        f"Result: `benchmarks/results/{STATISTICS.name}`. What these tasks are and what is kept\n"
        "of them: [tasks.md](tasks.md). This page is written by `benchmarks/synth_page.py`.\n\n"
    )
    refused = {f"`{name}`": f"{count:,}" for name, count in numbers["refused"].items()}
    return (
        head
        + table(rows)
        + "\n![difficulty, category, input](images/synth-shape.svg)\n"
        + "\n![operators](images/synth-operators.svg)\n"
        + "\nRefused candidates, by reason:\n\n"
        + table(refused)
        + (at_full_size(full) if full else "")
    )


def at_full_size(full: Numbers) -> str:
    """The section about a GPU."""
    deciles = full["eager_ms_deciles"]
    rows = {
        "ran": str(full["ran"]),
        "eager time within 0.05 to 20 ms": str(full["between_0.05_and_20_ms"]),
        "below 1 ms": str(full["below_1_ms"]),
        "eager ms, 10% / 50% / 90%": " / ".join(f"{deciles[place]:.3f}" for place in (0, 4, 8)),
        "trusted by the lint at full size": str(full["trusted"]),
        "findings": listed(full["findings"]) or "none",
    }
    return (
        "\n## At full size\n\n"
        f"`benchmarks/synth_full_size.py` on {full['date']}: {full['device']}, torch"
        f" {full['versions']['torch']}; {full['tasks']} tasks.\n\n"
        + table(rows)
        + "\n![eager times](images/synth-times.svg)\n"
    )


def table(rows: dict[str, str]) -> str:
    """Two columns without heads."""
    lines = [f"| {name} | {text} |\n" for name, text in rows.items()]
    return "| | |\n| --- | --- |\n" + "".join(lines)


def listed(counts: dict[str, int]) -> str:
    """Names with their numbers."""
    return ", ".join(f"{name} {count:,}" for name, count in counts.items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--statistics", type=Path, default=STATISTICS)
    parser.add_argument("--full-size", type=Path, default=FULL_SIZE)
    arguments = parser.parse_args()
    numbers = json.loads(arguments.statistics.read_text(encoding="utf-8"))
    full = None
    draw_figures(numbers)
    if arguments.full_size.exists():
        full = json.loads(arguments.full_size.read_text(encoding="utf-8"))
        draw_times(full)
    PAGE.write_text(page(numbers, full), encoding="utf-8")


if __name__ == "__main__":
    main()
