"""How long a jail takes to be ready, and whether starting thousands of them leaves anything behind.

    python benchmarks/jail_start.py --starts 10000 --output benchmarks/results/jail_start.json

Ready-to-run is the time from the call of `launch` to the entry of the guest's function, as the
caller sees it; the bare fork beside it is what no jail can go below. Growth is counted before and
after: descriptors, memory, mounts, control groups, zombies, files in /tmp.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import resource
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from kernelgym.sandbox import cgroup, cgroup_places, huge_pages
from kernelgym.sandbox.jail import JailSpec, end, launch, reap


def quantiles(values: list[float]) -> dict[str, float]:
    ordered = sorted(values)
    pick = lambda share: round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 2)  # noqa: E731
    return {"min": pick(0), "p50": pick(0.5), "p90": pick(0.9), "p99": pick(0.99), "max": pick(1)}


def cpu_seconds() -> float:
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def held() -> dict[str, int]:
    """What must not grow."""
    status = Path("/proc/self/status").read_text()
    rss = int(status.partition("VmRSS:")[2].split()[0])
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    groups = sum(
        name.startswith(f"{cgroup.PREFIX}{os.getpid()}-")
        for hierarchy in ("memory", "pids")
        for name in os.listdir(cgroup_places.parent(hierarchy) or "/var/empty")
    )
    return {
        "descriptors": len(os.listdir("/proc/self/fd")),
        "rss_kib": rss,
        "mounts": len(Path("/proc/self/mounts").read_text().splitlines()),
        "cgroups": groups,
        "children": len(children),
        "tmp_entries": sum(name.startswith("kernelgym-jail-") for name in os.listdir("/tmp")),
    }


def bare_forks(count: int) -> dict[str, float]:
    times = []
    for _ in range(count):
        read_end, write_end = os.pipe()
        started = time.perf_counter()
        pid = os.fork()
        if pid == 0:
            os.write(write_end, b"x")
            os._exit(0)
        os.read(read_end, 1)
        times.append((time.perf_counter() - started) * 1e3)
        os.close(read_end)
        os.close(write_end)
        os.waitpid(pid, 0)
    return quantiles(times)


def starts(spec: JailSpec, count: int) -> dict[str, object]:
    ready, ended_ms = [], []
    cpu, wall = cpu_seconds(), time.perf_counter()
    survivors = 0
    for _ in range(count):
        launched = launch(spec, lambda: None, [])
        ready.append(launched.ready_ms)
        started = time.perf_counter()
        survivors += end(launched, grace_s=5.0).survivors
        ended_ms.append((time.perf_counter() - started) * 1e3)
    reap()
    return {
        "starts": count,
        "ready_ms": quantiles(ready),
        "end_ms": quantiles(ended_ms),
        "cpu_ms_each": round((cpu_seconds() - cpu) / count * 1e3, 2),
        "wall_ms_each": round((time.perf_counter() - wall) / count * 1e3, 2),
        "survivors": survivors,
        "level": launched.level,
        "missing": list(launched.missing),
    }


def machine() -> dict[str, object]:
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "kernel": platform.release(),
        "cpus": os.cpu_count(),
        "load_average": [round(value, 1) for value in os.getloadavg()],
        "python": platform.python_version(),
        "torch": sys.modules["torch"].__version__ if "torch" in sys.modules else None,
        "malloc": {name: os.environ.get(name) for name in ("PYTHONMALLOC", "GLIBC_TUNABLES")},
        "uid": os.getuid(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--starts", type=int, default=1000, help="jails of the endurance run")
    parser.add_argument("--timed", type=int, default=200, help="jails of each timed run")
    parser.add_argument("--levels", default="none,L1", help="levels to time, comma-separated")
    parser.add_argument("--torch", action="store_true", help="fork from a process with torch")
    parser.add_argument("--huge-pages", action="store_true", help="as the zygote forks")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    if options.torch:
        import torch  # noqa: F401

        gc.freeze()
    if options.huge_pages:
        huge_pages.collapse()
    result: dict[str, object] = {"machine": machine(), "bare_fork_ms": bare_forks(options.timed)}
    levels = options.levels.split(",")
    for level in levels:
        result[level] = starts(JailSpec(level, 1 << 30), options.timed)
    if options.starts:
        before = held()
        endurance = starts(JailSpec(levels[-1], 1 << 30), options.starts)
        result["endurance"] = {**endurance, "before": before, "after": held()}
    text = json.dumps(result, indent=1)
    if options.output:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
