"""A gym under steady load for a long time: what grows.

    python benchmarks/service_soak.py --minutes 30 [--json FILE]

Workers whose backend does nothing carry the load; one that judges in a jail gets a real evaluation
a second, and each verdict must be that of its own input. Every half minute: memory and descriptors
of broker, server, workers, the judging worker and its zygotes, zombies, entries of /tmp, /dev/shm,
size of the file. Results expire after a minute, so that a flat line is possible.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Self

import record
from kernelgym.broker.embedded import EmbeddedBroker
from kernelgym.client import Gym
from service_load import drain, gym, requests, resident, workers

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "service"))

import oracle
from gym_under_test import ServerProcess, start_program, stop
from processes import descendants, zygotes

EVERY_S = 30.0
RATE_PER_S = 40
RESULT_TTL_S = 60.0
REAL_EVERY_S = 1.0


def descriptors(pid: int) -> int:
    """Open files of a process."""
    return len(os.listdir(f"/proc/{pid}/fd"))


def zombies(pids: list[int]) -> int:
    """Dead children of these processes that nobody has fetched."""
    found = 0
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        found += fields[0] == "Z" and int(fields[1]) in pids
    return found


class RealEvaluations:
    """A worker that judges, and a client that looks at its verdicts."""

    def __init__(self, server: ServerProcess) -> None:
        order = {"server": server.url, "token": server.token("worker"), "name": "real", "slots": 1}
        self.worker = start_program("real_worker.py", order)
        self.done = self.wrong = 0
        self._url = server.url
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        random_ = random.Random(1)
        with Gym(self._url, name="real") as client:
            while not self._over.wait(REAL_EVERY_S):
                asked, expected = oracle.question(random_)
                [result] = client.map([asked], device="cpu")
                self.done += 1
                self.wrong += result is None or not oracle.agrees(expected, oracle.seen(result))

    def sample(self) -> dict[str, Any]:
        """Of the worker and what it forked; judges wait for their task for a while."""
        pid = self.worker.pid
        below, listed = descendants(pid), [pid, *zygotes(pid)]
        return {
            "judging_worker_mb": resident(pid) / 1e6,
            "zygotes_mb": sum(resident(one) for one in listed[1:]) / 1e6,
            "judging_descriptors": sum(descriptors(one) for one in listed),
            "judging_processes": len(below),
            "judging_zombies": zombies([pid, *below]),
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End the client, then the worker."""
        self._over.set()
        self._thread.join()
        stop(self.worker)


def sample(broker: EmbeddedBroker, server_pid: int, worker_pids: list[int]) -> dict[str, Any]:
    """All that may grow."""
    own = [broker.pid, server_pid, *worker_pids]
    return {
        "broker_mb": resident(broker.pid) / 1e6,
        "server_mb": resident(server_pid) / 1e6,
        "workers_mb": sum(resident(pid) for pid in worker_pids) / 1e6,
        "descriptors": sum(descriptors(pid) for pid in own),
        "zombies": zombies(own),
        "tmp_entries": len(os.listdir("/tmp")),
        "shm_entries": len(os.listdir("/dev/shm")),
        "file_mb": sum(f.stat().st_size for f in broker.data_dir.rglob("*.aof")) / 1e6,
        "load_average": os.getloadavg()[0],
    }


def main() -> None:
    """Run and print the samples and how the last third compares with the middle one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    samples: list[dict[str, Any]] = []
    done = 0
    with (
        gym(result_ttl_s=RESULT_TTL_S) as (server, broker),
        workers(server, 2, 2, 4) as pids,
        Gym(server.url) as client,
        ExitStack() as running,
    ):
        assert server.process is not None
        real = running.enter_context(RealEvaluations(server))
        end = time.monotonic() + options.minutes * 60
        next_sample = time.monotonic()
        while time.monotonic() < end:
            started = time.monotonic()
            drain(client, client.submit(requests(RATE_PER_S)))
            done += RATE_PER_S
            if time.monotonic() >= next_sample:
                taken = sample(broker, server.process.pid, pids)
                with suppress(OSError):  # one of its processes has just ended
                    taken |= real.sample()
                samples.append(taken)
                next_sample += EVERY_S
            time.sleep(max(0.0, started + 1.0 - time.monotonic()))
    third = len(samples) // 3
    growth = {}
    for name in samples[-1].keys() - {"load_average"}:
        last, middle = (
            [one[name] for one in part if name in one]
            for part in (samples[-third:], samples[third:-third])
        )
        if third and last and sum(middle):
            growth[name] = (sum(last) / len(last)) / (sum(middle) / len(middle))
    body = {
        "minutes": options.minutes,
        "evaluations": done,
        "real_evaluations": real.done,
        "real_verdicts_wrong_or_missing": real.wrong,
        "last_third_over_middle_third": growth,
        "samples": samples,
    }
    print(json.dumps(body, indent=1))
    if options.json:
        record.write(options.json, "service_soak", body)


if __name__ == "__main__":
    main()
