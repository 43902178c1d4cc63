"""What the rows of `gpu_truth.py` say, each with the figure that it is held against. Pure."""

import json
import statistics
from collections import Counter, defaultdict
from itertools import combinations
from pathlib import Path

from gpu_throughput_summary import quantile, read

DIFFERENT = 0.05
"""Candidates whose speedups lie further apart than this must keep their order."""


def summarise(out: Path) -> dict:
    """Every section that has rows or data."""
    found = {}
    for name, summary in (
        ("copy", _copy), ("coverage", _coverage), ("tricks", _tricks), ("spinner", _spinner),
        ("repeats", _repeats),
    ):  # fmt: skip
        rows = read(out / f"{name}.jsonl")
        if rows:
            found[name] = summary(rows, _data(out, name))
    if clocks := _data(out, "clocks"):
        found["clocks"] = _clocks(clocks)
    return {"results": found}


def _data(out: Path, name: str) -> dict:
    path = out / f"{name}.data.json"
    return json.loads(path.read_text()) if path.exists() else {}


def _clocks(found: dict) -> dict:
    """Errors of CUPTI and of the marks against the known length."""
    empty, table = found["empty"]["body"]["p50"], []
    for key, series in found.items():
        if not key.startswith("spin "):
            continue
        spin_us = float(key.split()[1])
        cupti = (found["cupti"].get(key.removeprefix("spin ")) or {}).get("median_us")
        for calls, shot in series.items():
            count = int(calls.removeprefix("K="))
            mark = (shot["body"]["p50"] - empty) / count
            table.append(
                {
                    "spin_us": spin_us, "calls": count,
                    "marks_us": round(mark, 3), "events_us": round(shot["event"]["p50"] / count, 3),
                    "cupti_us": cupti,
                    "marks_within_3_us_and_2_percent": abs(mark - spin_us) <= 3 + 0.02 * spin_us,
                    "cupti_within_2_percent": None if cupti is None
                    else abs(cupti - spin_us) <= 0.02 * spin_us,
                }
            )  # fmt: skip
    return {"empty_bracket_us": empty, "table": table}


def _copy(rows: list[dict], data: dict) -> dict:
    times = [row["kernel_ms"] for row in rows if row.get("kernel_ms")]
    found = {"outcomes": _outcomes(rows), "judge_ms_p50": quantile(times, 0.5), "direct": data}
    if times and data.get("bytes"):
        judged = data["bytes"] / (statistics.median(times) / 1e3)
        found["judge_bytes_per_s"] = round(judged)
        found["over_direct"] = round(judged / data["candidate_bytes_per_s"], 4)
    return found


def _coverage(rows: list[dict], data: dict) -> dict:
    cases = []
    for row in rows:
        shares = defaultdict(float)
        for _, _, _, _, share, mode in row.get("kernels", ()):
            shares[mode] += share or 0.0
        cases.append(
            {key: row.get(key) for key in (
                "candidate", "kind", "name", "outcome", "cause", "speedup", "coverage",
                "displaced", "total_us", "generated_us", "sentence", "kernels", "findings",
            )} | {"shares_sum": {mode: round(value, 4) for mode, value in shares.items()}}
        )  # fmt: skip
    by_kind = defaultdict(list)
    for row in rows:
        if row.get("coverage") is not None:
            by_kind[row["kind"]].append(row["coverage"])
    return {
        "fused_min": min(by_kind["fused"], default=None),
        "lazy_max": max(by_kind["lazy"], default=None),
        "linear_and_own_sum": by_kind["part"],
        "direct": data,
        "cases": cases,
    }


def _tricks(rows: list[dict], _: dict) -> dict:
    twins = [row["kernel_ms"] for row in rows if not row["trick"] and row.get("kernel_ms")]
    twin = statistics.median(twins) if twins else None
    found = {}
    for name in sorted({row["trick"] for row in rows if row["trick"]}):
        mine = [row for row in rows if row["trick"] == name]
        ratios = [twin / row["kernel_ms"] for row in mine if twin and row.get("kernel_ms")]
        credited = [row for row in mine if row["outcome"] == "correct"]
        found[name] = {
            "outcomes": _outcomes(mine),
            "causes": sorted({row["cause"][:160] for row in mine if row["cause"]}),
            "findings": sorted({name for row in mine for name in row.get("findings", ())}),
            "reported_over_honest_speed": [round(ratio, 4) for ratio in ratios],
            "held": all(row.get("kernel_ms") and twin and twin / row["kernel_ms"] <= 1.05
                        for row in credited) if twin else None,
        }  # fmt: skip
    return {
        "twin": {"outcomes": _outcomes([r for r in rows if not r["trick"]]), "kernel_ms_p50": twin,
                 "relative_spread": _spread(twins)},
        "tricks": found,
    }  # fmt: skip


def _spinner(rows: list[dict], _: dict) -> dict:
    """Each candidate's median speedup in a phase, relative to that in all quiet phases."""
    honest = [row for row in rows if row["candidate"] != row["phase"]]
    speedups = defaultdict(lambda: defaultdict(list))
    for row in honest:
        if row.get("speedup"):
            phase = f"quiet {row['number']}" if row["phase"] == "quiet" else row["phase"]
            speedups[row["candidate"]][phase].append(row["speedup"])
            if row["phase"] == "quiet":
                speedups[row["candidate"]]["quiet"].append(row["speedup"])
    shifts = {
        candidate: {
            phase: {"evaluations": len(values),
                    "shift": round(statistics.median(values) / statistics.median(phases["quiet"])
                                   - 1, 5)}
            for phase, values in phases.items()
        }
        for candidate, phases in speedups.items() if phases["quiet"]
    }  # fmt: skip
    worst = defaultdict(float)
    for phases in shifts.values():
        for phase, value in phases.items():
            worst[phase] = max(worst[phase], abs(value["shift"]))
    by_phase = defaultdict(Counter)
    for row in rows:
        kind = "spinner" if row["candidate"] == row["phase"] else "honest"
        by_phase[f"{row['phase']}: {kind}"][row["outcome"]] += 1
    return {
        "outcomes": {name: dict(count) for name, count in by_phase.items()},
        "largest_shift": dict(worst),
        "shifts": shifts,
        "findings_of_spinners": dict(
            Counter(f for r in rows if r["candidate"] == r["phase"] for f in r.get("findings", ()))
        ),
    }


def _repeats(rows: list[dict], _: dict) -> dict:
    groups = defaultdict(list)
    for row in rows:
        groups[row["candidate"]].append(row)
    found = {}
    for name, group in groups.items():
        timed = [row for row in group if row.get("speedup")]
        values = [row["speedup"] for row in timed]
        middle = statistics.median(values) if values else None
        pairs = list(combinations([row["interval"] for row in timed], 2))
        overlapping = sum(a[0] <= b[1] and b[0] <= a[1] for a, b in pairs)
        found[name] = {
            "repeats": len(group), "outcomes": _outcomes(group), "speedup_p50": middle,
            "min": min(values, default=None), "max": max(values, default=None),
            "relative_spread": _spread(values),
            "intervals_that_hold_the_median": sum(
                row["interval"][0] <= middle <= row["interval"][1] for row in timed
            ),
            "pairs_of_intervals_that_overlap": round(overlapping / len(pairs), 4)
            if pairs else None,
        }  # fmt: skip
    return {"candidates": found, "order": _order(rows, found)}


def _order(rows: list[dict], found: dict) -> dict:
    """Pairs of candidates that differ, and in how many repeats they stand the other way round."""
    speed = {n: f["speedup_p50"] for n, f in found.items() if f["speedup_p50"]}
    rounds = defaultdict(dict)
    for row in rows:
        if row.get("speedup"):
            rounds[row["repeat"]][row["candidate"]] = row["speedup"]
    compared = swapped = 0
    for left, right in combinations(speed, 2):
        if abs(speed[left] / speed[right] - 1) <= DIFFERENT:
            continue
        for values in rounds.values():
            if left in values and right in values:
                compared += 1
                swapped += (values[left] < values[right]) != (speed[left] < speed[right])
    return {"by_speedup": sorted(speed, key=speed.__getitem__), "compared": compared,
            "swapped": swapped, "pairs_closer_than": DIFFERENT}  # fmt: skip


def _spread(values: list[float]) -> float | None:
    if not values:
        return None
    return round((max(values) - min(values)) / statistics.median(values), 5)


def _outcomes(rows: list[dict]) -> dict:
    return dict(Counter(row["outcome"] for row in rows))
