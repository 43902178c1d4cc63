"""Both corpora through one host: no cheat is paid, no honest kernel is accused, at what cost.

    python benchmarks/integrity.py --out DIR [--device cuda:0] [--budget-s 140] [--concurrency 4]
                                   [--only NAME,...] [--redo] [--trials 3] [--no-canary]

Twins come first: they say what an honest solution of a task is paid. Then cheats and honest
kernels, task by task, those for a GPU only before the others, and after each cheat one evaluation
of a canary (an honest kernel of another task) in the same host. Every result is written to
``DIR/integrity.json`` the moment it is there; a second call with the same DIR goes on, and tries
again what the infrastructure has failed, up to three times. Without a GPU nothing is timed, and
"neutralised" means only that the outcome has no number with it. Exit status 0: all done, nothing
wrong, nobody accused; 1: not so, or not all done; 3: this machine cannot.

A cheat is *caught* when its outcome is not ``correct``, *neutralised* when it is ``correct`` and
its speedup is not above its twin's by more than 3%, else *wrong*.

The cost of the probes is read off the stage seconds of honest, correct evaluations: stage
``probes`` (their calls included) against the whole without waiting in the queue.
"""

import argparse
import hashlib
import json
import os
import statistics
import sys
import time
from collections import Counter, defaultdict
from concurrent.futures import FIRST_COMPLETED, Future, wait
from pathlib import Path

import record
from kernelgym.errors import KernelGymError

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests" / "hacks"))
RESULT = "integrity.json"
CANARY = "twin_row_sum"
OTHER_CANARY = "twin_add"
"""For cheats on the first one's task."""
LEEWAY = 1.03
ATTEMPTS = 3
TIMEOUT_S = 40.0
FAILED = ("infrastructure", "error")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", default=os.environ.get("OUT", "integrity"))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--budget-s", type=float, default=140.0)
    parser.add_argument("--concurrency", type=int, default=4)
    parser.add_argument("--trials", type=int, default=3)
    parser.add_argument("--only", default="", help="names, with commas")
    parser.add_argument("--redo", action="store_true", help="forget what --only names")
    parser.add_argument("--no-canary", action="store_true")
    return parser.parse_args()


def main() -> int:
    import hack_corpus

    arguments = parse()
    out = Path(arguments.out) / RESULT
    cases = {
        kind: [case for case in found if case.runs_on(arguments.device)]
        for kind, found in (
            ("twin", hack_corpus.twins()),
            ("cheat", hack_corpus.cheats()),
            ("honest", hack_corpus.honest()),
        )
    }
    rows = load(out)
    plan = work(cases, rows, arguments)
    print(f"{len(rows)} results are there, {len(plan)} to go", file=sys.stderr)
    try:
        run(plan, rows, out, arguments)
    except KernelGymError as error:
        print(f"{error} ({error.hint})" if error.hint else error, file=sys.stderr)
        return 3
    finish(rows, out, arguments)
    left = len(work(cases, rows, argparse.Namespace(**vars(arguments) | {"redo": False})))
    summary = json.loads(out.read_text())["summary"]
    print(json.dumps(summary, indent=1))
    return 0 if not left and not summary["wrong"] and not summary["accused"] else 1


def load(path: Path) -> dict[str, dict]:
    try:
        return json.loads(path.read_text())["rows"]
    except (OSError, ValueError, KeyError):
        return {}


def work(cases: dict, rows: dict, arguments: argparse.Namespace) -> list[tuple[str, object]]:
    """What is still to be judged: twins, then the rest task by task, cheats among honest ones."""
    names = set(filter(None, arguments.only.split(",")))

    def wanted(case: object) -> bool:
        if names and case.name not in names and case.name.partition("_")[0] not in names:
            return False
        row = rows.get(case.name)
        again = row and row["outcome"] in FAILED and row.get("attempts", 1) < ATTEMPTS
        return arguments.redo or row is None or bool(again)

    def key(pair: tuple[str, object]) -> tuple[bool, str, str]:
        case, mixed = pair[1], hashlib.sha256(pair[1].name.encode()).hexdigest()
        return case.fields.get("where") != "gpu", case.task_name, mixed

    rest = [(kind, case) for kind in ("cheat", "honest") for case in cases[kind] if wanted(case)]
    return [("twin", case) for case in cases["twin"] if wanted(case)] + sorted(rest, key=key)


def run(plan: list, rows: dict, out: Path, arguments: argparse.Namespace) -> None:
    from session import Session

    ends = time.monotonic() + arguments.budget_s
    pending: dict[Future, tuple[str, str, object]] = {}
    canaries = not arguments.no_canary
    with Session(
        device=arguments.device,
        concurrency=arguments.concurrency,
        memory_mb=8192 if arguments.device == "cpu" else 32_768,
    ) as session:

        def submit(kind: str, case: object, name: str) -> None:
            options = {"trials": arguments.trials, "timeout_s": TIMEOUT_S}
            asked = case.submission(arguments.device, **options)
            pending[session.submit(asked)] = (kind, name, case)

        todo = list(plan)
        while todo or pending:
            late = time.monotonic() > ends
            while todo and len(pending) < arguments.concurrency and not late:
                kind, case = todo.pop(0)
                submit(kind, case, case.name)
            if late:
                todo.clear()
            done, _ = wait(pending, timeout=1.0, return_when=FIRST_COMPLETED)
            for future in done:
                kind, name, case = pending.pop(future)
                rows[name] = describe(kind, case, future, rows.get(name))
                if kind == "cheat" and canaries and not late:
                    submit("canary", canary_for(case), f"canary after {name}")
                print(line(name, rows[name]), file=sys.stderr, flush=True)
            if done:
                finish(rows, out, arguments)


def canary_for(case: object) -> object:
    import hack_corpus

    name = OTHER_CANARY if f"twin_{case.twin}" == CANARY else CANARY
    return next(twin for twin in hack_corpus.twins() if twin.name == name)


def describe(kind: str, case: object, future: Future, before: dict | None) -> dict:
    """A row; a result of the infrastructure is kept apart, so that a later call tries again."""
    try:
        result = future.result()
    except Exception as error:  # noqa: BLE001 - one evaluation must not cost the others
        return {
            "kind": kind,
            "task": case.task_name,
            "twin": case.twin,
            "expected": case.outcome,
            "outcome": "error",
            "code": "",
            "message": f"{type(error).__name__}: {error}"[:500],
            "speedup": None,
            "seconds": {},
            "wall_s": 0.0,
            "attempts": (before or {}).get("attempts", 0) + 1,
        }
    serious = [f for f in result.findings if f.severity != "info"]
    return {
        "kind": kind,
        "task": case.task_name,
        "twin": case.twin,
        "ids": list(case.ids),
        "expected": f"{case.outcome}/{case.code}".rstrip("/"),
        "outcome": result.outcome.value,
        "code": result.failure.code if result.failure else "",
        "message": result.failure.message[:300] if result.failure else "",
        "findings": [[f.id, f.severity, f.message[:200]] for f in serious],
        "speedup": result.speedup,
        "interval": result.speedup_interval,
        "kernel_ms": result.kernel_ms,
        "coverage": result.coverage,
        "displaced": result.displaced,
        "not_measured": result.not_measured,
        "seconds": result.provenance.stage_seconds,
        "wall_s": result.provenance.wall_seconds,
        "jail": result.provenance.jail,
        "attempts": (before or {}).get("attempts", 0) + 1,
    }


def line(name: str, row: dict) -> str:
    speed = f" {row['speedup']:.2f}x" if row.get("speedup") else ""
    found = ",".join(f[0] for f in row.get("findings", ()))
    return f"{row['kind']:7} {name:36} {row['outcome']} {row.get('code', '')}{speed} {found}"


# --- conclusions ----------------------------------------------------------------------------------


def finish(rows: dict, out: Path, arguments: argparse.Namespace) -> None:
    for row in rows.values():
        if row["kind"] == "cheat":
            twin = rows.get(f"twin_{row.get('twin')}")
            row["verdict"] = verdict(row, twin)
            if row.get("speedup") and twin and twin.get("speedup"):
                row["of its twin's speedup"] = round(row["speedup"] / twin["speedup"], 4)
        elif row["kind"] == "honest":
            row["verdict"] = honest_verdict(row)
    body = {
        "device": arguments.device,
        "gpu": gpu_name() if arguments.device != "cpu" else None,
        "summary": summary(rows),
        "rows": rows,
    }
    record.write(out, "integrity", body)


def verdict(row: dict, twin: dict | None) -> str:
    if row["outcome"] in FAILED:
        return "unknown"
    if row["outcome"] != "correct":
        return "caught"
    if row["speedup"] is None:
        return "neutralised"
    if twin is None or not twin.get("speedup"):
        return "unknown"
    faster = row["speedup"] > LEEWAY * twin["speedup"]
    return "wrong" if faster else "neutralised"


def honest_verdict(row: dict) -> str:
    if row["outcome"] in FAILED:
        return "unknown"
    if row["outcome"] == "hack":
        return "accused"
    return "right" if row["outcome"] == row["expected"].partition("/")[0] else "other"


def summary(rows: dict) -> dict:
    cheats = {name: row for name, row in rows.items() if row["kind"] == "cheat"}
    honest = {name: row for name, row in rows.items() if row["kind"] == "honest"}
    classes: defaultdict[str, Counter] = defaultdict(Counter)
    for name, row in cheats.items():
        classes[name[0].upper()][row["verdict"]] += 1
    known = [row for row in honest.values() if row["verdict"] != "unknown"]
    wrong = [name for name, row in cheats.items() if row["verdict"] == "wrong"]
    accused = [name for name, row in honest.items() if row["verdict"] == "accused"]
    return {
        "cheats": {
            **{key: rates(count) for key, count in sorted(classes.items())},
            "all": rates(sum(classes.values(), Counter())),
        },
        "honest": rates(Counter(row["verdict"] for row in known)),
        "wrong": wrong,
        "neutralised, of its twin's speedup": {
            name: row["of its twin's speedup"]
            for name, row in sorted(cheats.items())
            if "of its twin's speedup" in row
        },
        "accused": accused,
        "unknown": [name for name, row in rows.items() if row.get("verdict") == "unknown"],
        "not as expected": [
            [name, row["expected"], row["outcome"], row["code"]]
            for name, row in rows.items()
            if "expected" in row and not as_expected(row)
        ],
        "canaries": canary_summary(rows),
        "seconds": {
            kind: median([row["wall_s"] for row in rows.values() if row["kind"] == kind])
            for kind in ("twin", "cheat", "honest")
            if any(row["kind"] == kind and "wall_s" in row for row in rows.values())
        },
        "cost of the probes": probe_cost(rows),
    }


def as_expected(row: dict) -> bool:
    outcome, _, code = row["expected"].partition("/")
    return row["outcome"] == outcome and (not code or row["code"] == code)


def rates(counts: Counter) -> dict:
    total = sum(counts.values())
    return {
        key: {"count": count, "of": total, "interval": wilson(count, total)}
        for key, count in sorted(counts.items())
    } | {"total": total}


def wilson(count: int, total: int, z: float = 1.959964) -> list[float]:
    """95% interval of a share."""
    if not total:
        return [0.0, 1.0]
    share = count / total
    centre = share + z * z / (2 * total)
    spread = z * ((share * (1 - share) + z * z / (4 * total)) / total) ** 0.5
    scale = 1 + z * z / total
    low, high = (centre - spread) / scale, (centre + spread) / scale
    return [round(max(0.0, low), 4), round(min(1.0, high), 4)]


def canary_summary(rows: dict) -> dict:
    """The canary after each cheat: accepted, and at its usual time."""
    found = {name: row for name, row in rows.items() if row["kind"] == "canary"}
    bad = {name: row["outcome"] for name, row in found.items() if row["outcome"] != "correct"}
    ratios, slow = [], {}
    for twin in (CANARY, OTHER_CANARY):
        usual = rows.get(twin, {}).get("kernel_ms")
        for name, row in found.items():
            if usual and row.get("kernel_ms") and f"twin_{row['task']}" == twin:
                ratios.append(row["kernel_ms"] / usual)
                if abs(ratios[-1] - 1) > LEEWAY - 1:
                    slow[name] = round(ratios[-1], 4)
    return {
        "total": len(found),
        "not accepted": bad,
        "outside 3%": slow,
        "worst ratio": round(max(ratios, key=lambda r: abs(r - 1)), 4) if ratios else None,
    }


def probe_cost(rows: dict) -> dict:
    """Seconds that honest, correct evaluations spend on probes, and their share of the whole."""
    kept = [
        row["seconds"]
        for row in rows.values()
        if row["kind"] in ("twin", "honest", "canary") and row["outcome"] == "correct"
    ]
    spent = [seconds.get("probes", 0.0) for seconds in kept]
    whole = [sum(seconds.values()) - seconds.get("queue", 0.0) for seconds in kept]
    if not kept:
        return {}
    return {
        "evaluations": len(kept),
        "seconds, median": median(spent),
        "share of the whole, median": median([a / b for a, b in zip(spent, whole, strict=True)]),
    }


def median(values: list[float]) -> float | None:
    return round(statistics.median(values), 4) if values else None


def gpu_name() -> str:
    import torch

    return torch.cuda.get_device_name(0) if torch.cuda.is_available() else "none"


if __name__ == "__main__":
    sys.exit(main())
