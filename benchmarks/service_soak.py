"""A gym under steady load for a long time: what grows.

    python benchmarks/service_soak.py --minutes 30 [--json FILE]

Every half minute: memory and descriptors of broker, server and workers, zombies, entries of /tmp,
/dev/shm, size of the file. Results expire after a minute, so that a flat line is possible.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import record
from kernelgym.broker.embedded import EmbeddedBroker
from kernelgym.client import Gym
from service_load import drain, gym, requests, resident, workers

EVERY_S = 30.0
RATE_PER_S = 40
RESULT_TTL_S = 60.0


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
    ):
        assert server.process is not None
        end = time.monotonic() + options.minutes * 60
        next_sample = time.monotonic()
        while time.monotonic() < end:
            started = time.monotonic()
            drain(client, client.submit(requests(RATE_PER_S)))
            done += RATE_PER_S
            if time.monotonic() >= next_sample:
                samples.append(sample(broker, server.process.pid, pids))
                next_sample += EVERY_S
            time.sleep(max(0.0, started + 1.0 - time.monotonic()))
    third = len(samples) // 3
    growth = {
        name: sum(s[name] for s in samples[-third:]) / sum(s[name] for s in samples[third:-third])
        for name in samples[0]
        if third and sum(s[name] for s in samples[third:-third])
    }
    body = {
        "minutes": options.minutes,
        "evaluations": done,
        "last_third_over_middle_third": growth,
        "samples": samples,
    }
    print(json.dumps(body, indent=1))
    if options.json:
        record.write(options.json, "service_soak", body)


if __name__ == "__main__":
    main()
