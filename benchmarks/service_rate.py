"""Evaluations a second through a whole gym, next to those of the same host without one.

    python benchmarks/service_rate.py [--device cuda:0] [--count 240] [--slots 8] [--rounds 2]
        [--seconds 60] [--json FILE]

The same kind of work in turn for ``in_process`` (`EvaluationHost` in this process) and ``service``
(`kernelgym up` with one worker, everything over HTTP): 16 rollouts of each small task, every source
new to all caches. Each half starts its own processes, warms up, and then is timed from the first
submission to the last verdict. With ``--seconds`` the warm-up of the first half says how many
evaluations fit, and all halves have as many; starts, about ten seconds a half, come on top. Needs
the packages of the extra ``serve`` as well.

Not covered: several GPUs, several hosts, clients that do other things meanwhile.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))  # where it is not installed

import record
from gpu_throughput_tasks import SMALL, submission, tags, task_of
from kernelgym.client import Gym
from kernelgym.schema import EvalResult, Submission
from kernelgym.worker.host import EvaluationHost

ROLLOUTS = 16
TIMEOUT_S = 60.0
START_S = 180.0
CPU_MEMORY_MB = 4096
WARM_UPS = 2
"""The first one meets cold caches and says nothing about the rate."""
GOAL = 0.95
"""The service's rate over the host's."""

Outcomes = Sequence[EvalResult | None]


def submissions(count: int, device: str) -> list[Submission]:
    """Rollouts of one task after those of another."""
    is_cpu = device == "cpu"
    names = tags("rate")
    found: list[Submission] = []
    while len(found) < count:
        for entry in SMALL:
            task = task_of(entry.problem, None, dry_run=is_cpu)
            found += [submission(entry, task, next(names), TIMEOUT_S) for _ in range(ROLLOUTS)]
    found = found[:count]
    if is_cpu:
        found = [one.model_copy(update={"memory_mb": CPU_MEMORY_MB}) for one in found]
    return found


def that_fit(count: int, slots: int, warm_s: float, limit_s: float | None) -> int:
    """How many evaluations take ``limit_s`` seconds when ``slots`` of them took ``warm_s``."""
    if limit_s is None:
        return count
    return min(count, max(2 * slots, int(limit_s * slots / warm_s)))


def in_process(
    arguments: argparse.Namespace, count: int, limit_s: float | None = None
) -> tuple[float, Outcomes]:
    """Seconds and verdicts of a host of our own; of fewer than ``count`` that fit in a limit."""

    async def run() -> tuple[float, Outcomes]:
        device = arguments.device
        async with EvaluationHost(
            device=device, fallback=True, concurrency=arguments.slots
        ) as host:

            async def judge(number: int) -> tuple[float, Outcomes]:
                work = submissions(number, device)
                started = time.monotonic()
                results = await asyncio.gather(*(host.evaluate(one) for one in work))
                return time.monotonic() - started, results

            for _ in range(WARM_UPS):
                warm_s, _ = await judge(arguments.slots)
            return await judge(that_fit(count, arguments.slots, warm_s, limit_s))

    return asyncio.run(run())


def service(
    arguments: argparse.Namespace, count: int, limit_s: float | None = None
) -> tuple[float, Outcomes]:
    """Seconds and verdicts over HTTP; the first half has said how many fit."""
    assert limit_s is None
    with up(arguments) as address, Gym(address) as gym:
        for _ in range(WARM_UPS):
            gym.map(submissions(arguments.slots, arguments.device))
        work = submissions(count, arguments.device)
        started = time.monotonic()
        results = gym.map(work)
        return time.monotonic() - started, results


@contextmanager
def up(arguments: argparse.Namespace) -> Iterator[str]:
    """A gym with one worker on the device; its address."""
    is_cpu = arguments.device == "cpu"
    gpus = "none" if is_cpu else arguments.device.partition(":")[2]
    slots = ("--slots", arguments.slots) if is_cpu else ("--preparing", arguments.slots - 1)
    command = [sys.executable, "-c", "from kernelgym.cli.main import run; run()", "up"]
    command += ["--port", "0", "--gpus", gpus, "--fallback", *map(str, slots)]
    with tempfile.TemporaryDirectory(prefix="kernelgym-rate-") as directory:
        state = Path(directory) / "state"
        paths = [str(Path(__file__).parents[1] / "src"), os.environ.get("PYTHONPATH", "")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
        gym = subprocess.Popen([*command, "--state", str(state)], env=environment)
        try:
            yield _address(gym, state / "address")
        finally:
            gym.terminate()
            gym.wait(120)


def _address(gym: subprocess.Popen[bytes], path: Path) -> str:
    end = time.monotonic() + START_S
    while not path.exists():
        if gym.poll() is not None or time.monotonic() > end:
            raise SystemExit("kernelgym up did not start")
        time.sleep(0.1)
    return path.read_text()


WAYS: dict[str, Callable[[argparse.Namespace, int, float | None], tuple[float, Outcomes]]] = {
    "in_process": in_process,
    "service": service,
}


def main() -> int:
    """Run both ways in turn; 1 when the service is too slow, or verdicts are missing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--count", type=int, default=240, help="evaluations each way, in all")
    parser.add_argument("--slots", type=int, default=8, help="evaluations at once")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, help="of timed work, both ways and all rounds")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    began = time.monotonic()
    rows: list[dict[str, Any]] = []
    count = arguments.count // arguments.rounds
    limit_s = arguments.seconds and arguments.seconds / arguments.rounds / len(WAYS)
    for number in range(arguments.rounds):
        for way in sorted(WAYS, reverse=bool(number % 2)):
            seconds, results = WAYS[way](arguments, count, None if rows else limit_s)
            count = len(results)
            outcomes = Counter("none" if one is None else one.outcome.value for one in results)
            rate = len(results) / seconds
            rows.append(
                {"way": way, "round": number, "per_s": rate, "s": seconds, "outcomes": outcomes}
            )
            print(json.dumps(rows[-1]), file=sys.stderr)
    rates = {way: statistics.mean(r["per_s"] for r in rows if r["way"] == way) for way in WAYS}
    ratio = rates["service"] / rates["in_process"]
    body = {"per_s": rates, "service_over_in_process": ratio, "goal": GOAL, "rounds": rows}
    body |= {name: getattr(arguments, name) for name in ("device", "count", "slots", "seconds")}
    body |= {"whole_run_s": time.monotonic() - began, "load_average": os.getloadavg()}
    print(json.dumps(body, indent=1))
    if arguments.json:
        record.write(arguments.json, "service_rate", body)
    return 0 if ratio >= GOAL and all(r["outcomes"].keys() == {"correct"} for r in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
