"""Section ``row``: whole evaluations one after the other on one host, and what must not grow.

After every block of evaluations, with nothing running, it counts descriptors, memory, mounts,
control groups, children and zombies, files in the temporary directory and device memory of the host
and its zygote. The first blocks are for warming up: compilers, caches and judges that are kept.
"""

import asyncio
import os
import tempfile
import time
from collections import Counter
from pathlib import Path

from cases import HONEST_CASE, Case, forward

from gpu_jail_outcomes import adapted, submission
from gpu_jail_sheet import MIB, Sheet, device_bytes, own_groups, processes, quantiles
from kernelgym.sandbox import cgroup, cgroup_places
from kernelgym.schema import Outcome
from kernelgym.worker.host import EvaluationHost

BLOCK = 20
WARM_BLOCKS = 2
SLACK = {"rss_mib": 24, "zygote_rss_mib": 24, "judge_rss_mib": 64, "device_mib": 50}
"""What may be more at the end than after warming up: allocators breathe. Everything else: 0."""
MIX = [
    HONEST_CASE,
    Case("wrong", forward("return add(x, x)"), Outcome.MISMATCH),
    Case("raises", forward("raise KeyError('k')"), Outcome.RUNTIME_ERROR),
    Case("leaves", forward("os._exit(0)"), Outcome.CRASH),
]


def tree(host: EvaluationHost) -> dict[str, list[int]]:
    """Pids of the zygote's root and flavours, and of the rest of its tree."""
    everybody, root = processes(), host.zygote_pid
    flavours = [p.pid for p in everybody.values() if p.parent == root]
    below, frontier = [], set(flavours)
    while frontier:
        found = {p.pid for p in everybody.values() if p.parent in frontier} - set(below)
        below += sorted(found)
        frontier = found
    return {"zygote": [pid for pid in [root, *flavours] if pid is not None], "jailed": below}


def rss_mib(pids: list[int]) -> float:
    total = 0
    for pid in pids:
        text = Path(f"/proc/{pid}/status").read_text()
        total += int(text.partition("RssAnon:")[2].split()[0])
    return round(total / 1024, 1)


def groups() -> int:
    """Groups of jails that live or lived: those of the judges that are kept count the same."""
    parents = set(cgroup_places.parents().values())
    return sum(n.startswith(cgroup.PREFIX) for p in parents for n in os.listdir(p))


def held(sheet: Sheet, host: EvaluationHost) -> dict[str, float]:
    everybody, pids = processes(), tree(host)
    ours = {os.getpid(), *pids["zygote"], *pids["jailed"]}
    device = device_bytes(sheet)
    found: dict[str, float] = {
        "descriptors": len(os.listdir("/proc/self/fd")),
        "zygote_descriptors": sum(len(os.listdir(f"/proc/{p}/fd")) for p in pids["zygote"]),
        "rss_mib": rss_mib([os.getpid()]),
        "zygote_rss_mib": rss_mib(pids["zygote"]),
        "judge_rss_mib": rss_mib(pids["jailed"]),
        "mounts": len(Path("/proc/self/mounts").read_text().splitlines()),
        "jailed": len(pids["jailed"]),
        "zombies": sum(p.state == "Z" and p.parent in ours for p in everybody.values()),
        "groups_left": len(own_groups()),
        "temporary_files": sum(len(f) + len(d) for _, d, f in os.walk(tempfile.gettempdir())),
        "threads": len(os.listdir("/proc/self/task")),
    }
    return found if device is None else found | {"device_mib": round(device / MIB, 1)}


def growth(first: dict[str, float], last: dict[str, float]) -> dict[str, float]:
    """What is more than it may be."""
    grown = {key: last[key] - first[key] for key in first}
    return {key: round(more, 1) for key, more in grown.items() if more > SLACK.get(key, 0)}


async def block(sheet: Sheet, host: EvaluationHost, first: int) -> tuple[Counter[str], list[float]]:
    seen: Counter[str] = Counter()
    seconds: list[float] = []
    numbers = list(range(first, min(first + BLOCK, sheet.evaluations)))

    async def lane() -> None:
        while numbers:
            case = MIX[numbers.pop(0) % len(MIX)]
            case = adapted(case)[0] if sheet.on_gpu else case
            started = time.monotonic()
            result = await host.evaluate(submission(sheet, case))
            seconds.append(time.monotonic() - started)
            right = result.outcome is case.outcome
            seen["right" if right else f"{case.name}: {result.outcome.value}"] += 1

    await asyncio.gather(*(lane() for _ in range(sheet.lanes)))
    return seen, seconds


async def run(sheet: Sheet) -> None:
    """As many blocks as there is time for; earlier runs' evaluations count in the total."""
    before = sum(step.get("evaluations", 0) for step in sheet.steps.values())
    name = f"run {len(sheet.steps)}"
    samples: list[dict[str, float]] = []
    seen: Counter[str] = Counter()
    seconds: list[float] = []
    started, longest = time.monotonic(), 0.0
    async with sheet.host(concurrency=sheet.lanes) as host:
        while before + seen.total() < sheet.evaluations:
            if sheet.left_s() < longest + 5.0:
                break
            begun = time.monotonic()
            counts, spent = await block(sheet, host, before + seen.total())
            longest = max(longest, time.monotonic() - begun)
            seen += counts
            seconds += spent
            samples.append(held(sheet, host))
            warm = min(WARM_BLOCKS, len(samples)) - 1
            grown = growth(samples[warm], samples[-1])
            sheet.put(
                name,
                {
                    "right": not grown and set(seen) == {"right"},
                    "evaluations": seen.total(),
                    "seen": dict(seen),
                    "grown": grown,
                    "first": samples[warm],
                    "last": samples[-1],
                    "samples": samples[:: max(1, len(samples) // 20)],
                    "seconds_each": quantiles(seconds),
                    "per_s": round(seen.total() / (time.monotonic() - started), 2),
                },
            )
    total = before + seen.total()
    sheet.fact("evaluations", total)
    sheet.fact("groups_at_end", groups())
    sheet.fact("complete", total >= sheet.evaluations)
