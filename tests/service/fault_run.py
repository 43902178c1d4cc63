"""A gym under fire: clients and workers at work, processes killed at random, history checked.

    python tests/service/fault_run.py --tasks 10000 --real 1000 --json FILE

Most tasks go to workers whose evaluator only follows orders, the real ones to workers that judge in
a jail; each of these has a verdict of its own that is known beforehand. Faults: SIGKILL of workers,
zygotes, jailed processes, the server and the broker; SIGSTOP of a worker for longer than a lease;
SIGTERM (drain); the cable of a worker or a client that lives in a network namespace cut for longer
than a lease (root only; elsewhere the report says why not). What dies is started again, as a
service manager would.

Not covered: a broken disk, clocks that jump, more than one machine.
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
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import history
import injections
from gym_under_test import ServerProcess, start_broker, start_program
from partition import NetworkNamespace, why_impossible
from processes import jailed, zygotes

from kernelgym.broker.embedded import EmbeddedBroker

FAULTS = {
    "kill-worker": 10,
    "stop-worker": 3,
    "drain-worker": 2,
    "kill-server": 2,
    "kill-broker": 2,
    "kill-zygote": 2,
    "kill-child": 4,
    "cut-worker": 3,
    "cut-client": 1,
}
REAL_SHARE = 0.15
"""Of the faults that hit a worker: a real one takes seconds to start, and has its own besides."""
GRACE_S = 10.0
RECOVERY_S = 20.0
ROLES = ("stub", "real")


@dataclass(frozen=True)
class Plan:
    """What a run does."""

    tasks: int = 1000
    real: int = 0
    """How many of the tasks are judged for real."""
    clients: int = 3
    workers: int = 4
    real_workers: int = 0
    partitions: bool = False
    """A worker of each role and a client live in network namespaces of their own."""
    seconds_between_s: float = 0.5
    lease_s: float = 1.0
    deadline_s: float = 120.0
    batch: int = 60
    in_flight: int = 2
    seed: int = 0
    most_faults: int = 1_000_000
    """After so many the run is left in peace: on a loaded machine each makes it longer."""
    limit_s: float = 1200.0
    """A run that takes longer hangs."""


@dataclass
class Worker:
    """A worker at work."""

    process: subprocess.Popen[bytes]
    role: str
    namespace: NetworkNamespace | None


class FaultRun:
    """One run in a directory."""

    def __init__(self, plan: Plan, directory: Path) -> None:
        self.plan, self.directory = plan, directory
        self.random = random.Random(plan.seed)
        self.no_partition = "" if not plan.partitions else why_impossible()
        is_cut = plan.partitions and not self.no_partition
        self.namespaces = [NetworkNamespace(n) for n in range(3)] if is_cut else []
        self.tokens = {f"c{n}": f"token-of-client-{n}-{plan.seed}" for n in range(plan.clients)}
        tokens = directory / "tokens"
        tokens.write_text("".join(f"client {who} {one}\n" for who, one in self.tokens.items()))
        tokens.chmod(0o600)
        options: dict[str, Any] = {"host": "0.0.0.0", "tokens": tokens} if is_cut else {}
        self.broker: EmbeddedBroker = start_broker(directory / "broker")
        self.server = ServerProcess(
            directory / "server", self.broker.url, lease_s=plan.lease_s, max_retries=50, **options
        )
        self.workers: dict[str, Worker] = {}
        self.faults: Counter[str] = Counter()
        self.log = (directory / "faults.jsonl").open("a", buffering=1)
        self.born = 0
        self.outages: list[float] = []

    def write(self, kind: str, who: str) -> None:
        event = {"time": time.time(), "op": "fault", "kind": kind, "who": who}
        self.log.write(json.dumps(event) + "\n")

    # Programs

    def address(self, namespace: NetworkNamespace | None) -> str:
        """The server, as seen from there."""
        port = self.server.url.rsplit(":", 1)[1]
        return f"http://{namespace.gateway if namespace else '127.0.0.1'}:{port}"

    def start_worker(self, role: str, namespace: NetworkNamespace | None) -> None:
        self.born += 1
        name = f"{role}{self.born}"
        order = {
            "server": self.address(namespace),
            "token": self.server.token("worker"),
            "name": name,
            "log": str(self.directory / f"worker-{name}.jsonl"),
            **({"classes": ("stub",), "slots": 3} if role == "stub" else {"slots": 1}),
        }
        prefix = namespace.prefix if namespace else ()
        process = start_program(f"{role}_worker.py", order, prefix)
        self.workers[name] = Worker(process, role, namespace)

    def start_workers(self) -> None:
        """The first of each role behind a cable, when there are cables."""
        numbers = (self.plan.workers, self.plan.real_workers)
        for place, (role, number) in enumerate(zip(ROLES, numbers, strict=True)):
            for n in range(number):
                cable = self.namespaces[place] if self.namespaces and n == 0 else None
                self.start_worker(role, cable)

    def start_client(self, number: int) -> subprocess.Popen[bytes]:
        plan, name = self.plan, f"c{number}"
        namespace = self.namespaces[2] if self.namespaces and number == 0 else None
        order = {
            "server": self.address(namespace),
            "name": name,
            "token": self.tokens[name] if self.namespaces else None,
            "tasks": plan.tasks // plan.clients + (number < plan.tasks % plan.clients),
            "real": plan.real // plan.clients + (number < plan.real % plan.clients),
            "batch": plan.batch,
            "in_flight": plan.in_flight,
            "deadline_s": plan.deadline_s,
            "seed": plan.seed * 100 + number,
            "log": str(self.directory / f"client-{number}.jsonl"),
        }
        return start_program("fault_client.py", order, namespace.prefix if namespace else ())

    # Faults

    def inflict(self) -> None:
        """One fault."""
        kinds = [kind for kind in FAULTS if self._is_possible(kind)]
        [kind] = self.random.choices(kinds, weights=[FAULTS[one] for one in kinds])
        name = self._victim(kind)
        if name is None:
            return  # nothing of the kind runs at this moment
        self.faults[kind] += 1
        self.write(kind, name)
        match kind:
            case "kill-worker":
                self._end(name, signal.SIGKILL)
            case "drain-worker":
                self._end(name, signal.SIGTERM)
            case "stop-worker":
                self._stop_for_a_while(name)
            case "kill-zygote" | "kill-child":
                self._kill_below(name, kind)
            case "cut-worker":
                self._cut_for_a_while(self.workers[name].namespace)
            case "cut-client":
                self._cut_for_a_while(self.namespaces[2])
            case "kill-server" | "kill-broker":
                self._restart(kind)

    def _is_possible(self, kind: str) -> bool:
        if kind in ("kill-zygote", "kill-child"):
            return self.plan.real_workers > 0
        return not kind.startswith("cut") or bool(self.namespaces)

    def _victim(self, kind: str) -> str | None:
        """Name of a worker that the fault can hit."""
        if kind in ("kill-server", "kill-broker", "cut-client"):
            return ""
        role = "real" if self.random.random() < REAL_SHARE else "stub"
        names = sorted(self.workers)
        if kind == "cut-worker":
            names = [name for name in names if self.workers[name].namespace]
        elif kind == "kill-zygote":
            names = [name for name in names if zygotes(self.workers[name].process.pid)]
        elif kind == "kill-child":
            names = [name for name in names if jailed(self.workers[name].process.pid)]
        else:
            names = [name for name in names if self.workers[name].role == role] or names
        return self.random.choice(names) if names else None

    def _recover(self) -> None:
        """On a busy machine a worker takes seconds to start; a gym of none proves nothing."""
        end = time.monotonic() + RECOVERY_S
        enough = {"stub": self.plan.workers - 1, "real": min(1, self.plan.real_workers)}
        while time.monotonic() < end:
            at_work = Counter(
                worker.role
                for name, worker in self.workers.items()
                if (self.directory / f"worker-{name}.jsonl").exists()
            )
            if all(at_work[role] >= number for role, number in enough.items()):
                return
            time.sleep(0.05)

    def _end(self, name: str, number: signal.Signals) -> None:
        worker = self.workers.pop(name)
        worker.process.send_signal(number)
        if number is signal.SIGKILL:
            worker.process.wait()
        else:
            threading.Thread(target=worker.process.wait, daemon=True).start()
        self.start_worker(worker.role, worker.namespace)

    def _kill_below(self, name: str, kind: str) -> None:
        pid = self.workers[name].process.pid
        found = zygotes(pid) if kind == "kill-zygote" else jailed(pid)
        if found:
            with suppress(ProcessLookupError):
                os.kill(self.random.choice(found), signal.SIGKILL)

    def _stop_for_a_while(self, name: str) -> None:
        """A worker that is silent for two leases, comes back, and must be refused."""
        process = self.workers[name].process
        process.send_signal(signal.SIGSTOP)
        self._later(process.send_signal, signal.SIGCONT)

    def _cut_for_a_while(self, namespace: NetworkNamespace | None) -> None:
        assert namespace is not None
        namespace.link(up=False)
        self._later(self._mend, namespace)

    def _mend(self, namespace: NetworkNamespace) -> None:
        with suppress(subprocess.CalledProcessError):  # the run is over
            namespace.link(up=True)

    def _later(self, act: Any, *arguments: Any) -> None:
        """After more than two leases."""
        timer = threading.Timer(2 * self.plan.lease_s + 0.5, act, arguments)
        timer.daemon = True
        timer.start()

    def _restart(self, kind: str) -> None:
        started = time.monotonic()
        if kind == "kill-server":
            self.server.kill()
            self.server.start()
        else:
            assert self.broker.process is not None
            self.broker.process.kill()
            self.broker.process.wait()
            old = self.broker
            self.broker = start_broker(self.directory / "broker")
            old.stop()
        self.outages.append(time.monotonic() - started)

    # The run

    def run(self) -> tuple[history.Report, dict[str, Any]]:
        """Run to the end of all clients, then check."""
        started = time.monotonic()
        self.server.state.mkdir(parents=True, exist_ok=True)
        try:
            self.server.start()
            self.start_workers()
            clients = [self.start_client(n) for n in range(self.plan.clients)]
            limit = started + self.plan.limit_s
            while any(client.poll() is None for client in clients):
                self._recover()
                time.sleep(self.random.expovariate(1 / self.plan.seconds_between_s))
                is_enough = self.faults.total() >= self.plan.most_faults
                if not is_enough and any(client.poll() is None for client in clients):
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
            "no_partition": self.no_partition,
            "requeued": len(delays),
            "requeue_p50_s": round(quantiles[49], 3),
            "requeue_p99_s": round(quantiles[98], 3),
            "lease_s": self.plan.lease_s,
            "restart_max_s": round(max(self.outages, default=0.0), 3),
            **report.summary(),
            "checker_finds": injections.found(events, GRACE_S),
        }

    def stop(self) -> None:
        for worker in self.workers.values():
            worker.process.send_signal(signal.SIGCONT)
            worker.process.kill()
            worker.process.wait()
        self.server.stop()
        self.broker.stop()
        for namespace in self.namespaces:
            namespace.delete()
        self.log.close()


def main() -> int:
    """A run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--real", type=int, default=1_000)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--real-workers", type=int, default=2)
    parser.add_argument("--batch", type=int, default=200)
    parser.add_argument("--seconds-between", type=float, default=1.5)
    parser.add_argument("--limit-s", type=float, default=3 * 3600.0)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4)))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    plan = Plan(
        tasks=options.tasks,
        real=options.real,
        workers=options.workers,
        real_workers=options.real_workers,
        partitions=True,
        seconds_between_s=options.seconds_between,
        deadline_s=1800.0,
        batch=options.batch,
        seed=options.seed,
        limit_s=options.limit_s,
    )
    directory = Path(tempfile.mkdtemp(prefix="kernelgym-chaos-"))
    load = os.getloadavg()
    report, summary = FaultRun(plan, directory).run()
    missed = injections.missed(summary["checker_finds"])
    body = {"seed": options.seed, "plan": plan.__dict__, **summary}
    body["load_average"] = {"start": load, "end": os.getloadavg()}
    print(json.dumps(body, indent=2))
    if options.json:
        sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))
        import record

        record.write(options.json, "service_faults", body)
    if report.broken or missed:
        print(f"broken: {report.broken}, missed: {missed}; logs are kept in {directory}")
        return 1
    shutil.rmtree(directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
