"""What the rows of `gpu_throughput.py` say: rates, waterfall, latency, spread, A-A error. Pure."""

import json
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

SECTIONS = ("idle", "small_shared", "small_single", "mix_shared", "mix_single")


def read(path: Path) -> list[dict]:
    """Rows of a file; a line that was cut off is left out."""
    rows = []
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            rows.append(json.loads(line))
        except ValueError:
            continue
    return rows


def quantile(values: Iterable[float], part: float) -> float | None:
    """Nearest-rank quantile; None of nothing."""
    ordered = sorted(values)
    if not ordered:
        return None
    return round(ordered[min(len(ordered) - 1, int(part * len(ordered)))], 5)


def summarise(out: Path) -> dict:
    """Every section that has rows."""
    found = {}
    for section in SECTIONS:
        rows = read(out / f"{section}.jsonl")
        if rows:
            found[section] = _idle(rows) if section == "idle" else _loaded(rows)
    return {"results": found}


def _loaded(rows: list[dict]) -> dict:
    return {
        "evaluations": len(rows),
        "tasks": len({row["problem"] for row in rows}),
        "sustained": sustained(rows),
        **_common(rows),
    }


def _common(rows: list[dict]) -> dict:
    return {
        "outcomes": dict(Counter(row["outcome"] for row in rows)),
        "not_correct": _causes(rows),
        "waterfall_s": waterfall(rows),
        "gate": gate(rows),
        "wall_s": {part: quantile((r["wall_s"] for r in rows if "wall_s" in r), q)
                   for part, q in (("p50", 0.5), ("p95", 0.95))},
        "candidates": candidates(rows),
        "aa": aa(rows),
    }  # fmt: skip


def _idle(rows: list[dict]) -> dict:
    kept = [r for r in rows if r["turn"] > 0 and r["candidate"] != "reference"]
    new = [r for r in rows if r["turn"] == 0 and r["candidate"] != "reference"]
    return {
        "latency_kept_judge_s": _latency(kept),
        "latency_new_judge_s": _latency(new),
        **_common(rows),
        "waterfall_kept_s": waterfall(kept),
    }


def _latency(rows: list[dict]) -> dict:
    seconds = [row["ended_s"] - row["began_s"] for row in rows if row["outcome"] == "correct"]
    return {
        "evaluations": len(seconds),
        "p50": quantile(seconds, 0.5), "p95": quantile(seconds, 0.95), "min": quantile(seconds, 0),
    }  # fmt: skip


def sustained(rows: list[dict]) -> dict:
    """Evaluations a second while every lane was busy: after each lane's first, until one's last."""
    count, spent, spans = 0, 0.0, []
    for segment in sorted({row["segment"] for row in rows}):
        ends = defaultdict(list)
        for row in rows:
            if row["segment"] == segment:
                ends[row["lane"]].append(row["ended_s"])
        start, stop = max(min(times) for times in ends.values()), min(map(max, ends.values()))
        inside = sum(start < end <= stop for times in ends.values() for end in times)
        if stop > start:
            count, spent = count + inside, spent + stop - start
        everything = max(map(max, ends.values()))
        spans.append({"lanes": len(ends), "evaluations": sum(map(len, ends.values())),
                      "seconds": round(everything, 1)})  # fmt: skip
    rate = round(count / spent, 3) if spent else None
    return {"per_s": rate, "evaluations": count, "seconds": round(spent, 1), "segments": spans}


def waterfall(rows: list[dict]) -> dict:
    """Seconds of each stage, those that take longest in total first."""
    stages = defaultdict(list)
    for row in rows:
        for name, seconds in row.get("stages", {}).items():
            stages[name].append(seconds)
    table = {
        name: {
            "p50": quantile(values, 0.5), "p95": quantile(values, 0.95),
            "sum": round(sum(values), 3), "in": len(values),
        }
        for name, values in stages.items()
    }  # fmt: skip
    return dict(sorted(table.items(), key=lambda item: -item[1]["sum"]))


def gate(rows: list[dict]) -> dict:
    """Numbers about the gate that results carry, by name."""
    values = defaultdict(list)
    for row in rows:
        for name, value in row.items():
            if "gate" in name and isinstance(value, int | float):
                values[name].append(float(value))
    return {
        name: {"p50": quantile(v, 0.5), "p95": quantile(v, 0.95), "sum": round(sum(v), 3)}
        for name, v in values.items()
    }


def candidates(rows: list[dict]) -> dict:
    """Spread of each candidate's speedup, and how many intervals hold the median of all."""
    groups = defaultdict(list)
    for row in rows:
        if row.get("speedup") and row["candidate"] != "reference":
            groups[row["candidate"]].append(row)
    found = {}
    for name, group in sorted(groups.items()):
        speedups = [row["speedup"] for row in group]
        middle = statistics.median(speedups)
        inside = sum(low <= middle <= high for low, high in (row["interval"] for row in group))
        found[name] = {
            "evaluations": len(group),
            "kernel_ms": quantile((row["kernel_ms"] for row in group), 0.5),
            "reference_ms": quantile((row["reference_ms"] for row in group), 0.5),
            "speedup": {"min": quantile(speedups, 0), "p10": quantile(speedups, 0.1),
                        "p50": round(middle, 5), "p90": quantile(speedups, 0.9),
                        "max": quantile(speedups, 1)},
            "relative_spread_p10_p90": round(
                (quantile(speedups, 0.9) - quantile(speedups, 0.1)) / middle, 5
            ),
            "intervals_that_hold_the_median": inside,
            "coverage_p50": quantile(
                (row["coverage"] for row in group if row["coverage"] is not None), 0.5
            ),
        }  # fmt: skip
    return found


def aa(rows: list[dict]) -> dict:
    """The reference as its own candidate: how far from 1."""
    found = [r for r in rows if r["candidate"] == "reference" and r.get("speedup")]
    errors = [abs(row["speedup"] - 1) for row in found]
    within = sum(error <= 0.02 for error in errors)
    return {
        "evaluations": len(errors),
        "within_2_percent": within,
        "share_within": round(within / len(errors), 4) if errors else None,
        "error_p50": quantile(errors, 0.5), "error_p95": quantile(errors, 0.95),
        "error_max": quantile(errors, 1),
        "outside": [[r["problem"], r["speedup"], r["interval"], r["reference_ms"]]
                    for r in found if abs(r["speedup"] - 1) > 0.02],
    }  # fmt: skip


def _causes(rows: list[dict]) -> list:
    causes = Counter(
        (row["problem"], row["candidate"], row["outcome"], row.get("cause", "")[:200])
        for row in rows
        if row["outcome"] != "correct"
    )
    return [[*cause, count] for cause, count in causes.most_common(40)]
