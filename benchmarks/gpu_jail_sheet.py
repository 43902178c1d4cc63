"""What the sections of `gpu_jail_matrix.py` share: a sheet of results, hosts, what is left behind.

A sheet is written after every entry, so that a section that is cut short keeps what it had seen and
a later run goes on from there. Not covered: which entries there are (the sections say).
"""

import contextlib
import json
import os
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from kernelgym.sandbox import cgroup, cgroup_places
from kernelgym.sandbox.reaping import FIRST_OWN_UID
from kernelgym.schema import EvalResult
from kernelgym.worker import gpu
from kernelgym.worker.host import EvaluationHost

MIB = 1 << 20
JUDGE_MEMORY_MB = 32_768
ORPHAN = "kg-orphan"
"""Name that the daemons of the matrix give themselves."""
NOT_THE_CANDIDATE = {
    "queue", "judge", "open", "gate", "reference", "verdict", "handover", "end",
}  # fmt: skip
"""Stages in which no candidate is being waited for."""


@dataclass
class Sheet:
    """Entries of one section by name; ``ends`` is when it must have stopped (monotonic)."""

    path: Path
    ends: float
    device: str
    dry_run: bool
    evaluations: int
    lanes: int
    steps: dict[str, dict] = field(default_factory=dict)
    facts: dict[str, object] = field(default_factory=dict)

    def has(self, name: str) -> bool:
        """Whether an entry is there and right; one that was not is tried again."""
        return bool(self.steps.get(name, {}).get("right"))

    def put(self, name: str, found: dict) -> None:
        self.steps[name] = found
        self.save()

    def fact(self, name: str, value: object) -> None:
        self.facts[name] = value
        self.save()

    def save(self) -> None:
        body = {"steps": self.steps, "facts": self.facts}
        self.path.write_text(json.dumps(body, default=str))

    def left_s(self) -> float:
        return self.ends - time.monotonic()

    @property
    def on_gpu(self) -> bool:
        return self.device != "cpu"

    def host(self, level: str = "L1", **options: object) -> EvaluationHost:
        settings = {
            "jail_level": level,
            "device": self.device,
            "judge_memory_mb": JUDGE_MEMORY_MB if self.on_gpu else 4096,
            "reference_timeout_s": 60.0,
        }
        return EvaluationHost(**{**settings, **options})  # type: ignore[arg-type]


def describe(result: EvalResult) -> dict:
    """A result in a few lines."""
    failure = result.failure
    seconds = result.provenance.stage_seconds
    return {
        "outcome": result.outcome.value,
        "failure": None
        if failure is None
        else {
            "stage": failure.stage,
            "code": failure.code,
            "type": failure.type,
            "line": failure.line,
            "message": failure.message[:300],
        },
        "findings": [finding.id for finding in result.findings],
        "level": result.provenance.jail,
        "missing": list(result.provenance.jail_missing),
        "candidate_s": round(candidate_s(result), 3),
        "wall_s": round(result.provenance.wall_seconds, 3),
        "stage_seconds": {name: round(spent, 3) for name, spent in seconds.items()},
    }


def candidate_s(result: EvalResult) -> float:
    """Seconds during which a candidate was waited for."""
    seconds = result.provenance.stage_seconds
    return sum(spent for name, spent in seconds.items() if name not in NOT_THE_CANDIDATE)


def judge_pids(host: EvaluationHost) -> list[int]:
    """Keepers of the judges that live now, idle ones included."""
    return sorted(one.launched.pid for one in host.processes if one.role == "judge")


def device_bytes(sheet: Sheet) -> int | None:
    """Memory of the GPU in use, as NVML in a child of its own says; None without a GPU."""
    if not sheet.on_gpu:
        return None
    index = gpu.index_of(sheet.device)
    return next(item.used_bytes for item in gpu.facts() if item.index == index)


def quantiles(values: list[float]) -> dict[str, float]:
    """Of a sample; empty for none."""
    if not values:
        return {}
    ordered = sorted(values)

    def pick(share: float) -> float:
        return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 3)

    return {"n": len(ordered), "p50": pick(0.5), "p95": pick(0.95), "worst": pick(1.0)}


@dataclass(frozen=True)
class Seen:
    """One process as /proc shows it."""

    pid: int
    parent: int
    name: str
    uid: int
    state: str


def processes() -> dict[int, Seen]:
    """Every process that can be seen, by pid."""
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            uid = os.stat(f"/proc/{name}").st_uid
            stat = Path(f"/proc/{name}/stat").read_text()
        except OSError:
            continue
        state, parent = stat.rpartition(")")[2].split()[:2]
        comm = stat.partition("(")[2].rpartition(")")[0]
        found[int(name)] = Seen(int(name), int(parent), comm, uid, state)
    return found


def _is_kept(one: Seen, everybody: dict[int, Seen]) -> bool:
    """Whether a zygote that lives has it in its tree: somebody else's, since ours are closed."""
    while one.parent in everybody:
        one = everybody[one.parent]
        with contextlib.suppress(OSError):
            if b"kernelgym.sandbox.zygote" in Path(f"/proc/{one.pid}/cmdline").read_bytes():
                return True
    return False


def own_groups() -> list[str]:
    """Control groups of jails whose zygote is dead."""
    found = []
    for parent in set(cgroup_places.parents().values()):
        for name in os.listdir(parent):
            pid = name.removeprefix(cgroup.PREFIX).partition("-")[0]
            if (
                name.startswith(cgroup.PREFIX)
                and pid.isdigit()
                and not os.path.exists(f"/proc/{pid}")
            ):
                found.append(f"{parent}/{name}")
    return found


def leftovers(groups_before: set[str] = frozenset()) -> dict[str, list]:  # type: ignore[assignment]
    """What no evaluation may leave behind, looked for when every host is closed."""
    deadline = time.monotonic() + 3.0
    while True:
        everybody = processes()
        jailed = [
            p for p in everybody.values() if p.name == ORPHAN or FIRST_OWN_UID <= p.uid < 2**31
        ]
        left: dict[str, list] = {
            "processes": [vars(p) for p in jailed if not _is_kept(p, everybody)],
            "zombies": [
                vars(p) for p in everybody.values() if p.state == "Z" and p.parent == os.getpid()
            ],
            "files": [n for n in os.listdir(tempfile.gettempdir()) if "gates" not in n],
            "groups": sorted(set(own_groups()) - groups_before),
        }
        if not any(left.values()) or time.monotonic() > deadline:
            return left
        time.sleep(0.1)


def xids() -> list[str]:
    """Lines of the kernel's log about faults of the GPU."""
    try:
        done = subprocess.run(["dmesg"], capture_output=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    lines = done.stdout.decode(errors="replace").splitlines()
    return [line[:200] for line in lines if "Xid" in line]
