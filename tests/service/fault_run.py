"""A gym under fire: clients and workers at work, processes killed at random, history checked.

    python tests/service/fault_run.py --tasks 10000 --workers 6 --seconds-between 0.7 --json FILE

Faults: SIGKILL of workers, the server and the broker; SIGSTOP of a worker for longer than a lease;
SIGTERM (drain); what dies is started again, as a service manager would. All on this machine.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import history
from gym_under_test import HERE, ServerProcess, start_broker, start_stub_worker

from kernelgym.broker.embedded import EmbeddedBroker

FAULTS = {
    "kill-worker": 10,
    "stop-worker": 3,
    "drain-worker": 2,
    "kill-server": 2,
    "kill-broker": 2,
}
GRACE_S = 10.0
RECOVERY_S = 20.0


@dataclass(frozen=True)
class Plan:
    """What a run does."""

    tasks: int = 1000
    clients: int = 3
    workers: int = 4
    seconds_between_s: float = 0.5
    lease_s: float = 1.0
    deadline_s: float = 120.0
    batch: int = 60
    in_flight: int = 2
    seed: int = 0


class FaultRun:
    """One run in a directory."""

    def __init__(self, plan: Plan, directory: Path) -> None:
        self.plan, self.directory = plan, directory
        self.random = random.Random(plan.seed)
        self.broker: EmbeddedBroker = start_broker(directory / "broker")
        self.server = ServerProcess(
            directory / "server", self.broker.url, lease_s=plan.lease_s, max_retries=50
        )
        self.workers: dict[str, subprocess.Popen[bytes]] = {}
        self.faults: Counter[str] = Counter()
        self.log = (directory / "faults.jsonl").open("a", buffering=1)
        self.born = 0
        self.outages: list[float] = []

    def write(self, kind: str, who: str) -> None:
        event = {"time": time.time(), "op": "fault", "kind": kind, "who": who}
        self.log.write(json.dumps(event) + "\n")

    def start_worker(self) -> None:
        self.born += 1
        name = f"w{self.born}"
        self.workers[name] = start_stub_worker(
            self.server, name, slots=3, log=str(self.directory / f"worker-{name}.jsonl")
        )

    def start_client(self, number: int) -> subprocess.Popen[bytes]:
        plan = self.plan
        order = {
            "server": self.server.url,
            "name": f"c{number}",
            "tasks": plan.tasks // plan.clients + (number < plan.tasks % plan.clients),
            "batch": plan.batch,
            "in_flight": plan.in_flight,
            "deadline_s": plan.deadline_s,
            "seed": plan.seed * 100 + number,
            "log": str(self.directory / f"client-{number}.jsonl"),
        }
        process = subprocess.Popen(
            [sys.executable, str(HERE / "fault_client.py")], stdin=subprocess.PIPE
        )
        assert process.stdin is not None
        process.stdin.write(json.dumps(order).encode())
        process.stdin.close()
        return process

    def inflict(self) -> None:
        """One fault."""
        kinds = list(FAULTS)
        [kind] = self.random.choices(kinds, weights=[FAULTS[one] for one in kinds])
        name = self.random.choice(sorted(self.workers))
        self.faults[kind] += 1
        self.write(kind, name)
        started = time.monotonic()
        match kind:
            case "kill-worker":
                self._end(name, signal.SIGKILL)
            case "drain-worker":
                self._end(name, signal.SIGTERM)
            case "stop-worker":
                self._stop_for_a_while(name)
            case "kill-server":
                self.server.kill()
                self.server.start()
            case "kill-broker":
                self._restart_broker()
        if kind.endswith(("server", "broker")):
            self.outages.append(time.monotonic() - started)

    def _recover(self) -> None:
        """On a busy machine a worker takes seconds to start; a gym of none proves nothing."""
        end = time.monotonic() + RECOVERY_S
        while time.monotonic() < end:
            logs = [self.directory / f"worker-{name}.jsonl" for name in self.workers]
            working = sum(log.exists() for log in logs)
            if working >= self.plan.workers - 1:
                return
            time.sleep(0.05)

    def _end(self, name: str, number: signal.Signals) -> None:
        process = self.workers.pop(name)
        process.send_signal(number)
        if number is signal.SIGKILL:
            process.wait()
        else:
            threading.Thread(target=process.wait, daemon=True).start()
        self.start_worker()

    def _stop_for_a_while(self, name: str) -> None:
        """A worker that is silent for two leases, comes back, and must be refused."""
        process = self.workers[name]
        process.send_signal(signal.SIGSTOP)
        wake = threading.Timer(2 * self.plan.lease_s + 0.5, process.send_signal, [signal.SIGCONT])
        wake.daemon = True
        wake.start()

    def _restart_broker(self) -> None:
        assert self.broker.process is not None
        self.broker.process.kill()
        self.broker.process.wait()
        old = self.broker
        self.broker = start_broker(self.directory / "broker")
        old.stop()

    def run(self) -> tuple[history.Report, dict[str, Any]]:
        """Run to the end of all clients, then check."""
        started = time.monotonic()
        self.server.state.mkdir(parents=True, exist_ok=True)
        try:
            self.server.start()
            for _ in range(self.plan.workers):
                self.start_worker()
            clients = [self.start_client(n) for n in range(self.plan.clients)]
            limit = started + 20 * 60
            while any(client.poll() is None for client in clients):
                self._recover()
                time.sleep(self.random.expovariate(1 / self.plan.seconds_between_s))
                if any(client.poll() is None for client in clients):
                    self.inflict()
                if time.monotonic() > limit:
                    raise AssertionError("the run does not end")
            failed = [client.returncode for client in clients if client.returncode]
            assert not failed, f"clients failed: {failed}"
        finally:
            self.stop()
        events = history.read(sorted(self.directory.glob("*.jsonl")))
        report = history.check(events, GRACE_S)
        return report, self.summary(events, report, time.monotonic() - started)

    def summary(
        self, events: list[history.Event], report: history.Report, seconds: float
    ) -> dict[str, Any]:
        delays = history.requeue_seconds(events)
        quantiles = statistics.quantiles(delays, n=100) if len(delays) > 1 else [0.0] * 99
        return {
            "seconds": round(seconds, 1),
            "faults": dict(self.faults),
            "requeued": len(delays),
            "requeue_p50_s": round(quantiles[49], 3),
            "requeue_p99_s": round(quantiles[98], 3),
            "lease_s": self.plan.lease_s,
            "restart_max_s": round(max(self.outages, default=0.0), 3),
            **report.summary(),
        }

    def stop(self) -> None:
        for process in self.workers.values():
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()
        self.server.stop()
        self.broker.stop()
        self.log.close()


def main() -> int:
    """A run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--workers", type=int, default=6)
    parser.add_argument("--seconds-between", type=float, default=0.7)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4)))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    plan = Plan(
        tasks=options.tasks,
        workers=options.workers,
        seconds_between_s=options.seconds_between,
        deadline_s=600.0,
        batch=200,
        seed=options.seed,
    )
    directory = Path(tempfile.mkdtemp(prefix="kernelgym-chaos-"))
    report, summary = FaultRun(plan, directory).run()
    text = json.dumps({"seed": options.seed, "plan": plan.__dict__, **summary}, indent=2)
    print(text)
    if options.json:
        options.json.write_text(text + "\n")
    if report.broken:
        print(f"broken: {report.broken}; logs are kept in {directory}")
        return 1
    shutil.rmtree(directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
