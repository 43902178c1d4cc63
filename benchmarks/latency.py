"""What one evaluation costs from request to verdict, warm zygote against fresh processes.

    python benchmarks/latency.py [--count 40] [--fresh-count 20]

`add` of 16,384 float32, 5 trials in eval and train mode, report for sm_90, jail L1, no judge kept:
every evaluation forks a judge, loads and studies the reference, forks a candidate and a compiler,
and ends them. ``zygote`` forks from a process that has torch and Triton loaded; ``fresh`` (the
host's ``start="exec"``) starts Python anew for each of them, which is what an evaluator without a
zygote pays. One evaluation at a time, the host already started. Also, without a limit claimed for
it: with the judge kept.

Numbers from a busy machine mean little; where it cannot be made idle, `chrt -r 1 python ...` puts
the benchmark and what it forks before everything else, and the result says so.

Not covered: load by other evaluations, and a GPU.
"""

import argparse
import asyncio
import os
import statistics
import sys
import time
from pathlib import Path

import record
from kernelgym.schema import EvalResult, Submission
from kernelgym.tasks.registry import builtin_task
from kernelgym.worker.host import EvaluationHost

HERE = Path(__file__).parent
CANDIDATE = HERE.parent / "examples" / "candidates" / "add.py"


def submission() -> Submission:
    return Submission(task=builtin_task("builtin/add"), source=CANDIDATE.read_text(), trials=5)


async def measure(start: str, count: int, *, keep_judge: bool, warm_ups: int = 2) -> dict:
    seconds, results = [], []
    async with EvaluationHost(jail_level="L1", start=start) as host:
        for index in range(warm_ups + count):
            began = time.perf_counter()
            result = await host.evaluate(submission(), fresh=not keep_judge)
            spent = time.perf_counter() - began
            check(result)
            if index >= warm_ups:
                seconds.append(spent)
                results.append(result)
            print(f"{start} {index}: {spent:.3f} s", file=sys.stderr)
    return describe(seconds, results)


def check(result: EvalResult) -> None:
    """What is timed must be the whole thing."""
    assert result.correct, result.failure
    assert len(result.trials) == 10
    assert {trial.mode for trial in result.trials} == {"eval", "train"}
    assert [kernel.target for kernel in result.profile.compiled] == ["sm_90"]
    assert result.provenance.jail == "L1"


def describe(seconds: list[float], results: list[EvalResult]) -> dict:
    ordered = sorted(seconds)
    names = results[0].provenance.stage_seconds
    shares = [sum(r.provenance.stage_seconds.values()) / r.provenance.wall_seconds for r in results]
    return {
        "evaluations": len(seconds),
        "p50_s": round(statistics.median(ordered), 3),
        "p95_s": round(ordered[min(len(ordered) - 1, round(0.95 * len(ordered)))], 3),
        "min_s": round(ordered[0], 3),
        "max_s": round(ordered[-1], 3),
        "stage_p50_s": {
            name: round(statistics.median(r.provenance.stage_seconds[name] for r in results), 4)
            for name in names
        },
        "stages_over_wall_min": round(min(shares), 3),
        "stages_over_wall_max": round(max(shares), 3),
        "samples_s": [round(value, 4) for value in seconds],
    }


async def run(arguments: argparse.Namespace) -> dict:
    circumstances = {
        "load_before": round(os.getloadavg()[0], 1),
        "real_time_scheduling": os.sched_getscheduler(0) in (os.SCHED_RR, os.SCHED_FIFO),
    }
    body = {
        "zygote": await measure("zygote", arguments.count, keep_judge=False),
        "fresh": await measure("exec", arguments.fresh_count, keep_judge=False, warm_ups=1),
        "zygote_judge_kept": await measure("zygote", arguments.count, keep_judge=True),
    }
    ratio = body["fresh"]["p50_s"] / body["zygote"]["p50_s"]
    return {**circumstances, "fresh_over_zygote_p50": round(ratio, 2), **body}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--fresh-count", type=int, default=20)
    parser.add_argument(
        "--out", type=Path, default=HERE / "results" / f"latency-{record.today()}.json"
    )
    arguments = parser.parse_args()
    body = asyncio.run(run(arguments))
    record.write(arguments.out, "latency", body)
    for name in ("zygote", "fresh", "zygote_judge_kept"):
        print(f"{name}: p50 {body[name]['p50_s']} s, p95 {body[name]['p95_s']} s")
    print(f"load before: {body['load_before']}")


if __name__ == "__main__":
    main()
