"""The results part of ``docs/measurement.md``, written from committed results.

    python benchmarks/measurement_page.py [--check] [--results DIR] [--page FILE]

Reads ``gpu_first_run.json``, ``gpu_throughput.json``, ``gpu_aa.json``, ``gpu_truth.json`` and
``gpu_truth_clocks.json`` in ``benchmarks/results`` and
replaces what stands between two markers on the page: no number there is typed. ``--check`` writes
nothing and fails when the page differs from the results. A result that is missing is said to be
missing; one of a dry run is refused.

Not covered: whether the results are good; each table says what was asked for beside what was seen.
"""

import argparse
import json
import sys
from collections.abc import Iterable
from pathlib import Path

HERE = Path(__file__).parent
FURTHER = {"gpu_truth_clocks"}
"""Further runs of a benchmark, for the parts that its first one did not reach."""
PAGE = HERE.parent / "docs" / "measurement.md"
BEGIN, END = "<!-- results: begin (benchmarks/measurement_page.py) -->", "<!-- results: end -->"
TARGETS = {"small_shared": 8.0, "mix_shared": 3.5}
GATE_TARGET_S, LATENCY_TARGET_S = 0.08, 0.6


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--results", type=Path, default=HERE / "results")
    parser.add_argument("--page", type=Path, default=PAGE)
    arguments = parser.parse_args()
    old = arguments.page.read_text()
    new = replaced(old, text(arguments.results))
    if arguments.check:
        if new != old:
            print("docs/measurement.md differs from the results", file=sys.stderr)
            print("  try: python benchmarks/measurement_page.py", file=sys.stderr)
        return int(new != old)
    arguments.page.write_text(new)
    return 0


def replaced(page: str, results: str) -> str:
    """The page with another results part; put at its end when it has none."""
    before, found, rest = page.partition(BEGIN)
    after = rest.partition(END)[2] if found else "\n"
    return f"{before.rstrip()}\n\n{BEGIN}\n\n{results.strip()}\n\n{END}{after}"


def text(results: Path) -> str:
    """All results as Markdown."""
    parts = ["## Results"]
    first = results / "gpu_first_run.json"
    if first.exists():
        parts += first_run(json.loads(first.read_text()))
    for name, render in (
        ("gpu_throughput", throughput), ("gpu_aa", aa), ("gpu_truth", truth),
        ("gpu_truth_clocks", truth),
    ):  # fmt: skip
        path = results / f"{name}.json"
        if not path.exists():
            if name in FURTHER:
                continue
            parts.append(f"`{name}`: not measured yet (`python benchmarks/{name}.py --out DIR`).")
            continue
        found = json.loads(path.read_text())
        if found.get("dry_run"):
            raise SystemExit(f"{path}: a dry run is no result")
        parts.append(circumstances(name, found))
        parts += render(found["results"])
    return "\n\n".join(part for part in parts if part)


def first_run(found: dict) -> list[str]:
    """Clock, profiler and references of the built-in tasks, from ``gpu_first_run``."""
    if found["dry_run"]:
        raise SystemExit("gpu_first_run.json: a dry run is no result")
    sections, versions = found["sections"], found["versions"]
    (gpu,) = sections["machine"]["steps"]["facts"]["gpus"]
    names = ("cupti", "armed", "aa")
    commits = ", ".join(f"{name} {sections[name]['commit'][:8]}" for name in names)
    head = (
        f"`gpu_first_run`, {found['date']}: {gpu['name']}, driver {gpu['driver']},"
        f" {found['machine']['cores']} cores, Python {versions['python']}, torch"
        f" {versions['torch']}, Triton {versions['triton']}; commits: {commits}."
    )
    return [head, spins(sections), references(sections["aa"]["steps"])]


def spins(sections: dict) -> str:
    """Kernels of known length: CUPTI, marks without the empty bracket, events."""
    truth, armed = sections["cupti"]["steps"]["ground truth"], sections["armed"]["steps"]
    empty = armed["empty"]["body"]["p50"]
    rows = []
    for name, seen in truth.items():
        step = armed.get(f"spin {name}", {}).get("K=1")
        if step:
            marks, events = step["body"]["p50"] - empty, step["event"]["p50"]
            rows.append(f"| {name} | {seen['median_us']:.1f} | {marks:.1f} | {events:.1f} |")
    lines = ["| spin kernel | CUPTI, us | marks, us | events, us |", "|---|---|---|---|", *rows]
    return (
        "\n".join(lines)
        + f"\n\nMedians; the empty bracket of {empty:.1f} us is taken off the marks."
    )


def references(steps: dict) -> str:
    """Built-in references as their own candidates."""
    ratios = [step["speedup"] for step in steps.values() if step["outcome"] == "correct"]
    within = sum(abs(ratio - 1) <= 0.02 for ratio in ratios)
    rows = [
        f"| {name.partition('/')[2]} | {step['kernel_ms']:.3f} | {step['speedup']:.3f} |"
        f" {step['interval'][0]:.3f} - {step['interval'][1]:.3f} |"
        for name, step in steps.items()
        if step["outcome"] == "correct"
    ]
    head = (
        f"{len(ratios)} of {len(steps)} built-in references as their own candidates were `correct`;"
        f" {within} within 0.98-1.02 (smallest {min(ratios):.3f}, largest {max(ratios):.3f}):"
    )
    table = ["| task | ms | speedup | 95% interval |", "|---|---|---|---|", *rows]
    return "\n".join([head, "", *table])


def circumstances(name: str, found: dict) -> str:
    machine, versions = found["machine"], found["versions"]
    return (
        f"`{name}`, {found['date']}, commit {found['commit'][:8]}: {machine.get('cores')} cores of"
        f" {machine.get('processor')}, {gpu_of(found)}, Python"
        f" {versions.get('python')}, torch {versions.get('torch')}, Triton"
        f" {versions.get('triton')}."
    )


def gpu_of(found: dict) -> str:
    """Name, driver and clock of the GPU, as they were before the first section."""
    seen = [gpu for gpu in found.get("gpu_before_and_after_each_section", ()) if gpu]
    if not seen or not seen[0].get("name"):
        return "GPU not named"
    first = seen[0]
    return f"{first['name']} (driver {first['driver']}, {first['sm_clock_mhz']} MHz)"


def table(head: str, rows: Iterable[Iterable[object]]) -> str:
    """A Markdown table; numbers in columns that are not the first stand to the right."""
    names = [name.strip() for name in head.split("|")]
    lines = [list(map(shown, row)) for row in rows]
    if not lines:
        return ""
    body = [names, ["---", *["--:"] * (len(names) - 1)], *lines]
    return "\n".join("| " + " | ".join(line) + " |" for line in body)


def shown(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "**no**"
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value).replace("|", "/").replace("\n", " ")


def counts(outcomes: dict) -> str:
    return ", ".join(f"{count} {name}" for name, count in outcomes.items())


def percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f}%"


# --- throughput -----------------------------------------------------------------------------------


def throughput(found: dict) -> list[str]:
    """Rates, latency, waterfall and spread."""
    parts = ["### Evaluations a second"]
    loaded = {name: data for name, data in found.items() if name != "idle"}
    parts.append(
        table(
            "workload | evaluations | tasks | a second, sustained | asked for"
            " | gate held, p50 s | A-A error p50 | A-A within 2% | outcomes",
            (
                [name, data["evaluations"], data["tasks"], data["sustained"]["per_s"],
                 TARGETS.get(name), held(data), percent(data["aa"]["error_p50"]),
                 percent(data["aa"]["share_within"]), counts(data["outcomes"])]
                for name, data in loaded.items()
            ),
        )
    )  # fmt: skip
    parts.append(
        f"Gate held asked for: at most {GATE_TARGET_S} s for small tasks. `shared`: 16 rollouts a"
        " task share its judge; `single`: a new judge for every evaluation."
    )
    if idle := found.get("idle"):
        parts.append(_idle(idle))
    for name in ("small_shared", "mix_shared"):
        if name in loaded:
            parts.append(f"Where the time of `{name}` goes, seconds of an evaluation:")
            parts.append(_waterfall(loaded[name]["waterfall_s"]))
    if "mix_shared" in loaded:
        parts.append("Spread of each candidate's speedup over the evaluations of `mix_shared`:")
        parts.append(_spread(loaded["mix_shared"]["candidates"]))
    return parts


def held(data: dict) -> float | None:
    return (data["gate"].get("gate_held_seconds") or {}).get("p50")


def _idle(idle: dict) -> str:
    kept, new = idle["latency_kept_judge_s"], idle["latency_new_judge_s"]
    error = percent(idle["aa"]["error_p50"])
    return (
        f"Idle machine, small tasks: p50 {shown(kept['p50'])} s with the task's judge kept"
        f" ({kept['evaluations']} evaluations), {shown(new['p50'])} s with a new one"
        f" ({new['evaluations']}); asked for: at most {LATENCY_TARGET_S} s. A-A error p50 {error}."
    )


def _waterfall(stages: dict) -> str:
    rows = ([name, s["p50"], s["p95"], s["sum"]] for name, s in stages.items() if s["sum"] >= 0.01)
    return table("stage | p50 | p95 | sum", rows)


def _spread(candidates: dict) -> str:
    return table(
        "candidate | evaluations | reference ms | kernel ms | speedup p50 | p10-p90, relative"
        " | intervals that hold the median | coverage",
        (
            [name, c["evaluations"], c["reference_ms"], c["kernel_ms"], c["speedup"]["p50"],
             percent(c["relative_spread_p10_p90"]),
             f"{c['intervals_that_hold_the_median']} of {c['evaluations']}", c["coverage_p50"]]
            for name, c in candidates.items()
        ),
    )  # fmt: skip


# --- A-A ------------------------------------------------------------------------------------------


def aa(found: dict) -> list[str]:
    """References as their own candidates."""
    parts = ["### The reference as its own candidate"]
    names = {"problems": "all problems", "beside": "beside other evaluations"}
    for section, title in names.items():
        if section not in found:
            continue
        data = found[section]
        parts.append(f"{title.capitalize()}: {data['problems']} run, {counts(data['outcomes'])}.")
        lengths = {"all": data["all"], **data["by_call_ms"]}
        parts.append(
            table(
                "call, ms | timed | within 0.98-1.02 | min | p05 | p50 | p95 | max"
                " | intervals that hold 1",
                (
                    [name, d["timed"], percent(d["share_within"]), d["min"], d["p05"], d["p50"],
                     d["p95"], d["max"], d["intervals_that_hold_1"]]
                    for name, d in lengths.items() if d["timed"]
                ),
            )
        )  # fmt: skip
        parts.append(table("not correct | outcome | cause", data["not_correct"]))
        parts.append(table("correct, not timed | why", data["not_timed"]))
    if "coverage" in found:
        parts.append("How often the 95% interval holds 1 (asked for: 93% of 1,000 repeats):")
        parts.append(
            table(
                "task | repeats | timed | of record | of one mode | half-width p50",
                (
                    [name, c["repeats"], c["timed"], percent(c["interval_of_record_holds_1"]),
                     percent(c["interval_of_a_mode_holds_1"]), c["half_width_p50"]]
                    for name, c in found["coverage"].items()
                ),
            )
        )  # fmt: skip
    return parts


# --- ground truth ---------------------------------------------------------------------------------


def truth(found: dict) -> list[str]:
    """Known lengths, shares and tricks."""
    parts = ["### Ground truth"]
    for name, render in (
        ("clocks", _clocks), ("copy", _copy), ("coverage", _coverage), ("tricks", _tricks),
        ("spinner", _spinner), ("repeats", _repeats),
    ):  # fmt: skip
        if name in found:
            parts += render(found[name])
    return parts


def _clocks(data: dict) -> list[str]:
    rows = (
        [line["spin_us"], line["calls"], line["marks_us"], line["events_us"], line["cupti_us"],
         line["marks_within_3_us_and_2_percent"], line["cupti_within_2_percent"]]
        for line in data["table"]
    )  # fmt: skip
    head = (
        "spin, us | calls | marks, us a call | events | CUPTI | marks within 3 us + 2%"
        " | CUPTI within 2%"
    )
    return [
        f"Spin kernels (empty bracket {shown(data['empty_bracket_us'])} us):",
        table(head, rows),
    ]


def _copy(data: dict) -> list[str]:
    if data.get("over_direct") is None:
        return []
    ratio = percent(data["over_direct"])
    return [
        f"Copy of 1 GiB: {data['judge_bytes_per_s'] / 1e12:.3f} TB/s as the judge times it, {ratio}"
        " of what the same kernel reaches between events in a process of its own."
    ]


def _coverage(data: dict) -> list[str]:
    rows = (
        [case["name"] or case["candidate"], case["outcome"], case["coverage"], case["displaced"],
         case["speedup"], ", ".join(f"{m} {v}" for m, v in case["shares_sum"].items()),
         case["sentence"]]
        for case in data["cases"]
    )  # fmt: skip
    head = "candidate | outcome | coverage | displaced | speedup | shares sum | sentence"
    parts = ["Coverage (asked for: fused at least 0.99, lazy at most 0.02):", table(head, rows)]
    direct = data["direct"]
    linear = [shown(value) for value in data["linear_and_own_sum"]]
    shares = [
        f"{name} {shown(direct[part][key])}"
        for name, part, key in (
            ("ncu", "ncu", "share"),
            ("events, sum behind the linear layer", "parts", "share_behind_linear"),
        )
        if key in direct.get(part, {})
    ]
    if "linear_own_sum" in direct.get("ablated", {}):
        shares.append(f"T - T_ablated {shown(direct['ablated']['linear_own_sum']['share'])}")
    if linear:
        parts.append(f"Linear layer + own sum: {', '.join(linear)}; {'; '.join(shares)}.")
    return parts


def _tricks(data: dict) -> list[str]:
    rows = (
        [name, counts(t["outcomes"]), ", ".join(map(shown, t["reported_over_honest_speed"])),
         t["held"], "; ".join(t["causes"])[:160]]
        for name, t in data["tricks"].items()
    )  # fmt: skip
    head = "trick | outcomes | reported / honest speed | held | cause"
    return [
        "Timer tricks (held: at most 5% faster than the twin, or no credit):",
        table(head, rows),
    ]


def _spinner(data: dict) -> list[str]:
    rows = ([phase, percent(shift)] for phase, shift in data["largest_shift"].items())
    outcomes = ([name, counts(found)] for name, found in data["outcomes"].items())
    return [
        "Beside candidates that spin while they are prepared (asked for: at most 2%):",
        table("phase | largest shift of a candidate's median speedup", rows),
        table("who | outcomes", outcomes),
    ]


def _repeats(data: dict) -> list[str]:
    rows = (
        [name, c["repeats"], counts(c["outcomes"]), c["speedup_p50"], c["min"], c["max"],
         c["intervals_that_hold_the_median"], percent(c["pairs_of_intervals_that_overlap"])]
        for name, c in data["candidates"].items()
    )  # fmt: skip
    head = (
        "candidate | repeats | outcomes | speedup p50 | min | max | hold the median"
        " | pairs of intervals that overlap"
    )
    order = data["order"]
    return [
        "Repeats:",
        table(head, rows),
        f"Order: {order['swapped']} of {order['compared']} comparisons of candidates that lie more"
        f" than {percent(order['pairs_closer_than'])} apart came out the other way round.",
    ]


if __name__ == "__main__":
    sys.exit(main())
