"""What the rows of `gpu_aa.py` say: who is correct, how far from 1, how often the interval holds 1.

The raw samples go into a file of their own, compressed. Pure but for that file.
"""

import gzip
import json
from collections import Counter
from pathlib import Path

from gpu_throughput_summary import quantile, read

LENGTHS_MS = ((0.0, 0.03), (0.03, 0.1), (0.1, 1.0), (1.0, 10.0), (10.0, 1e9))
"""Classes of the reference's call length."""
SAMPLES = "gpu_aa_samples.json.gz"


def summarise(out: Path) -> dict:
    """Every section that has rows; writes the samples."""
    found, samples = {}, {}
    for section in ("problems", "beside"):
        rows = last(read(out / f"{section}.jsonl"))
        if rows:
            found[section] = distances(rows)
            samples[section] = {
                row["problem"]: {"modes": [mode[0] for mode in row["modes"]],
                                 "reference_and_candidate_us": row["samples_us"]}
                for row in rows if row.get("samples_us")
            }  # fmt: skip
    repeats = read(out / "coverage.jsonl")
    if repeats:
        found["coverage"] = coverage(repeats)
    neighbours = read(out / "neighbours.jsonl")
    if neighbours:
        outcomes = Counter(row["outcome"] for row in neighbours)
        found["neighbours"] = {"evaluations": len(neighbours), "outcomes": dict(outcomes)}
    if samples:
        with gzip.open(out / SAMPLES, "wt", compresslevel=9) as file:
            json.dump(samples, file, separators=(",", ":"))
    return {"results": found}


def last(rows: list[dict]) -> list[dict]:
    """One row a problem, its last one."""
    return list({row["problem"]: row for row in rows}.values())


def distances(rows: list[dict]) -> dict:
    """Outcomes, and how far the speedups lie from 1, in all and by call length."""
    timed = [row for row in rows if row.get("speedup")]
    return {
        "problems": len(rows),
        "outcomes": dict(Counter(row["outcome"] for row in rows)),
        "not_correct": [
            [row["problem"], row["outcome"], row.get("cause", "")[:300]]
            for row in rows if row["outcome"] != "correct"
        ],
        "not_timed": [
            [row["problem"], row["not_measured"].get("speedup", "")[:200]]
            for row in rows if row["outcome"] == "correct" and not row.get("speedup")
        ],
        "all": _within(timed),
        "by_call_ms": {
            f"{low:g}-{high:g}" if high < 1e9 else f"{low:g}-": _within(
                [row for row in timed if low <= row["reference_ms"] < high]
            )
            for low, high in LENGTHS_MS
        },
        "outside": [
            [row["problem"], row["speedup"], row["interval"], row["reference_ms"], row["findings"]]
            for row in timed if abs(row["speedup"] - 1) > 0.02
        ],
        "findings": dict(Counter(name for row in rows for name in row.get("findings", ()))),
        "wall_s": {"p50": quantile((r["wall_s"] for r in rows if "wall_s" in r), 0.5),
                   "max": quantile((r["wall_s"] for r in rows if "wall_s" in r), 1)},
        "rows": [
            [row["problem"], row["outcome"], row.get("speedup"), row.get("interval"),
             row.get("reference_ms"), row.get("wall_s")]
            for row in rows
        ],
    }  # fmt: skip


def _within(rows: list[dict]) -> dict:
    speedups = [row["speedup"] for row in rows]
    inside = sum(0.98 <= value <= 1.02 for value in speedups)
    return {
        "timed": len(speedups),
        "within_2_percent": inside,
        "share_within": round(inside / len(speedups), 4) if speedups else None,
        **{name: quantile(speedups, part) for name, part in
           (("min", 0), ("p05", 0.05), ("p50", 0.5), ("p95", 0.95), ("max", 1))},
        "intervals_that_hold_1": sum(low <= 1 <= high for low, high in _intervals(rows)),
    }  # fmt: skip


def _intervals(rows: list[dict]) -> list:
    return [row["interval"] for row in rows if row.get("interval")]


def coverage(rows: list[dict]) -> dict:
    """How often the interval of record, and that of each mode, holds 1."""
    found = {}
    for problem in sorted({row["problem"] for row in rows}):
        mine = [row for row in rows if row["problem"] == problem]
        timed = [row for row in mine if row.get("speedup")]
        modes = [mode for row in timed for mode in row["modes"]]
        record = sum(low <= 1 <= high for low, high in _intervals(timed))
        single = sum(mode[4] <= 1 <= mode[5] for mode in modes)  # ends of its interval
        found[problem] = {
            "repeats": len(mine),
            "outcomes": dict(Counter(row["outcome"] for row in mine)),
            "timed": len(timed),
            "interval_of_record_holds_1": round(record / len(timed), 4) if timed else None,
            "interval_of_a_mode_holds_1": round(single / len(modes), 4) if modes else None,
            "speedup": _within(timed),
            "half_width_p50": quantile(
                ((high - low) / 2 for low, high in _intervals(timed)), 0.5
            ),
        }  # fmt: skip
    return found
