"""Episodes on a GPU with the scripted teacher: plumbing, and how busy the GPU is kept.

    python benchmarks/gpu_episodes.py --out DIR [--only eval,scale,collect] [--tasks 40]
        [--samples 4] [--turns 5] [--concurrency 32] [--evaluations 10] [--dry-run]

``eval``: tasks x samples x turns; ``scale``: 14 turns, memory against the whole history against
parallel samples; ``collect``: trajectories (needs pyarrow). Each is a run directory in DIR and goes
on where it was when repeated (its span then includes the break). Result: ``DIR/gpu_episodes.json``,
with the share of wall time for which some evaluation held the GPU. The candidates are written by
rules: no figure here says anything about a model.
"""

import argparse
import asyncio
import json
import time
from collections.abc import Coroutine
from datetime import datetime
from pathlib import Path
from typing import Any

import record
from drkernel.collect.policies import AnyPolicySettings
from drkernel.evaluate.running import evaluate_into
from drkernel.evaluate.settings import EvalSettings
from drkernel.rollout.settings import EpisodeSettings, GymSettings
from drkernel.rollout.tasks import TaskSettings
from drkernel.scale.running import scale_into
from drkernel.scale.settings import ChoosingSettings, ScaleSettings

TEACHER = AnyPolicySettings(name="teacher")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", default="eval,scale")
    parser.add_argument("--tasks", type=int, default=40)
    parser.add_argument("--samples", type=int, default=4)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--scale-tasks", type=int, default=10)
    parser.add_argument("--concurrency", type=int, default=32)
    parser.add_argument("--evaluations", type=int, default=10)
    parser.add_argument("--source", default="", help="task source; default synth:11:N:1..4")
    parser.add_argument("--dry-run", action="store_true", help="on a CPU, small")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    parts = {
        name: _timed(arguments.out / name, part(arguments))
        for name, part in (("collect", _collect), ("eval", _eval), ("scale", _scale))
        if name in arguments.only.split(",")
    }
    record.write(arguments.out / "gpu_episodes.json", "gpu_episodes", {"runs": parts})


def _timed(run: Path, work: Coroutine[Any, Any, dict[str, Any]]) -> dict[str, Any]:
    started = time.monotonic()
    facts = asyncio.run(work)
    facts["wall_seconds"] = round(time.monotonic() - started, 1)
    facts["gpu"] = _busy(run)
    print(run.name, facts, flush=True)
    return facts


def _busy(run: Path) -> dict[str, Any]:
    """How long evaluations held the GPU, of the time from the first one's start to the last one's
    end. The gate lets one through at a time, so that the sum is the union."""
    seen: dict[str, tuple[float, float, float]] = {}
    for path in sorted(run.rglob("episodes.jsonl")) + sorted(run.glob("starts.jsonl")):
        for line in path.read_text().splitlines():
            turn = json.loads(line).get("turn")
            result = turn and turn["result"]
            held = result and result["provenance"].get("gate_held_seconds")
            if held is None or not result:
                continue
            known = result["provenance"]
            at = datetime.fromisoformat(known["started_at"]).timestamp()
            # Arms share their first turns: the same evaluation stands in several logs.
            seen[f"{known['started_at']} {known['source_hash']}"] = (
                at,
                known["wall_seconds"],
                held,
            )
    if not seen:
        return {"evaluations": 0}
    first = min(at for at, _, _ in seen.values())
    last = max(at + wall for at, wall, _ in seen.values())
    held_s = sum(held for _, _, held in seen.values())
    return {
        "evaluations": len(seen),
        "span_seconds": round(last - first, 1),
        "held_seconds": round(held_s, 1),
        "held_share": round(held_s / (last - first), 3),
        "evaluations_per_second": round(len(seen) / (last - first), 2),
    }


def _tasks(arguments: argparse.Namespace, count: int) -> TaskSettings:
    count = 2 if arguments.dry_run else count
    source = arguments.source or f"synth:11:{count}:1..4"
    return TaskSettings(
        source=(source,), scale="lint" if arguments.dry_run else "full", limit=count
    )


def _gym(arguments: argparse.Namespace) -> GymSettings:
    device = "cpu" if arguments.dry_run else "cuda:0"
    return GymSettings(server="here", device=device, evaluations=arguments.evaluations)


async def _eval(arguments: argparse.Namespace) -> dict[str, Any]:
    settings = EvalSettings(
        policy=TEACHER,
        tasks=_tasks(arguments, arguments.tasks),
        episode=EpisodeSettings(turns=2 if arguments.dry_run else arguments.turns),
        samples=1 if arguments.dry_run else arguments.samples,
        concurrency=arguments.concurrency,
        gym=_gym(arguments),
    )
    run = arguments.out / "eval"
    summary = await evaluate_into(run, settings, resume=run.exists())
    return {**summary.cost, "outcomes": summary.outcomes}


async def _scale(arguments: argparse.Namespace) -> dict[str, Any]:
    schedule = {"max_turns": 2, "iterations": 2, "w": 1} if arguments.dry_run else {}
    settings = ScaleSettings(
        policy=TEACHER,
        tasks=_tasks(arguments, arguments.scale_tasks),
        arms=("vanilla", "top", "parallel"),
        choosing=ChoosingSettings(enabled=not arguments.dry_run, arm="top"),
        concurrency=arguments.concurrency,
        gym=_gym(arguments),
        **schedule,
    )
    run = arguments.out / "scale"
    summary = await scale_into(run, settings, resume=run.exists())
    return {"turns": summary.turns, "costs": summary.costs, "choices": len(summary.choices)}


async def _collect(arguments: argparse.Namespace) -> dict[str, Any]:
    from drkernel.collect.recording import collect_into
    from drkernel.collect.settings import CollectSettings

    settings = CollectSettings(
        policy=TEACHER,
        tasks=_tasks(arguments, arguments.tasks),
        episode=EpisodeSettings(turns=2 if arguments.dry_run else arguments.turns),
        concurrency=arguments.concurrency,
        gym=_gym(arguments),
    )
    run = arguments.out / "collect"
    return await collect_into(run, settings, resume=run.exists())


if __name__ == "__main__":
    main()
