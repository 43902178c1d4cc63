"""Evaluations side by side, for the GPU benchmarks: lanes, memory, rows that survive a crash.

A lane takes one job after another. A job is a list of evaluations that run in turn, such as the
rollouts of one task, so that they share a judge. `Memory` keeps jobs apart that would not fit on
the GPU together. Each finished evaluation is one line of a file, written at once.

Not covered: what is evaluated and what the rows mean.
"""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from kernelgym.schema import EvalResult, Submission
from kernelgym.worker.host import EvaluationHost

GPU_GIB = 110.0
"""What jobs may claim together; the rest is for contexts and caches."""
CONTEXTS_GIB = 1.5
"""Two contexts, flush buffer, small pools."""
COPIES = 6.0
"""Inputs and outputs lie about this often on the GPU: ring, pools, expected outputs, temporaries.

Not smaller than what a judge was seen to take; a job that claims too much only runs more alone.
"""
JUDGE_MEMORY_MB = 100_000


def claim_gib(moved_gib: float) -> float:
    """Memory of one evaluation on the GPU."""
    return CONTEXTS_GIB + COPIES * moved_gib


class Memory:
    """Room on the GPU, shared by jobs; one that claims more than there is runs alone.

    First come, first served: a large job is not passed by small ones for ever.
    """

    def __init__(self, total_gib: float = GPU_GIB) -> None:
        self._total = self._free = total_gib
        self._door = asyncio.Lock()
        self._changed = asyncio.Event()

    @asynccontextmanager
    async def room(self, gib: float) -> AsyncIterator[None]:
        want = min(gib, self._total)
        async with self._door:
            while self._free < want:
                self._changed.clear()
                await self._changed.wait()
            self._free -= want
        try:
            yield
        finally:
            self._free += want
            self._changed.set()


@dataclass
class Job:
    """Evaluations that run one after the other, and what they claim of the GPU."""

    name: str
    gib: float
    turns: list[tuple[dict, Submission]] = field(default_factory=list)
    """What the row says besides the result, and the submission."""
    fresh: bool = False


class Rows:
    """A file of rows, each written when it is known."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: list[dict] = []
        if path.exists():
            for line in path.read_text().splitlines():
                try:
                    self.rows.append(json.loads(line))
                except ValueError:
                    continue  # the line during which the machine was taken away
        path.parent.mkdir(parents=True, exist_ok=True)

    def add(self, row: dict) -> None:
        self.rows.append(row)
        with self.path.open("a") as file:
            file.write(json.dumps(row, separators=(",", ":")) + "\n")


def host_for(device: str, workers: int) -> EvaluationHost:
    return EvaluationHost(
        device=device, fallback=True, concurrency=workers,
        judge_memory_mb=JUDGE_MEMORY_MB if device != "cpu" else 4096, idle_s=3.0,
    )  # fmt: skip


async def run_jobs(
    host: EvaluationHost,
    jobs: Iterable[Job],
    rows: Rows,
    *,
    lanes: int,
    ends: float,
    limit_s: float,
    samples: bool = False,
    profile: bool = False,
    memory: Memory | None = None,
    grace_s: float = 0.0,
) -> None:
    """Run jobs until they or the time are at an end; ``ends`` is on the monotonic clock.

    What runs then may take ``grace_s`` more; it is cut, and leaves no row, after that.
    """
    queue, room = iter(jobs), memory or Memory()
    started = time.monotonic()

    async def lane(number: int) -> None:
        for job in queue:
            async with room.room(claim_gib(job.gib)):
                for facts, submission in job.turns:
                    if time.monotonic() >= ends:
                        return
                    left = min(limit_s, max(1.0, ends + grace_s - time.monotonic()))
                    began = time.monotonic()
                    result = await _bounded(host, submission, left, fresh=job.fresh)
                    row = _row(result, samples=samples, profile=profile)
                    if row.get("outcome") == "over_limit" and left < limit_s:
                        return  # cut by the end of this run, not by its own limit
                    times = {"lane": number, "began_s": round(began - started, 3),
                             "ended_s": round(time.monotonic() - started, 3)}  # fmt: skip
                    rows.add(facts | times | row)

    await asyncio.gather(*(lane(number) for number in range(lanes)))


async def _bounded(
    host: EvaluationHost, submission: Submission, limit_s: float, *, fresh: bool
) -> EvalResult | dict:
    try:
        work: Awaitable[EvalResult] = host.evaluate(submission, fresh=fresh)
        return await asyncio.wait_for(work, limit_s)
    except TimeoutError:
        return {"outcome": "over_limit", "cause": f"no verdict within {limit_s:.0f} s"}
    except Exception as error:  # noqa: BLE001 - one evaluation must not cost the others
        print(f"{submission.task.name}: {type(error).__name__}: {error}", file=sys.stderr)
        return {"outcome": "raised", "cause": f"{type(error).__name__}: {error}"[:600]}


def _row(result: EvalResult | dict, *, samples: bool, profile: bool) -> dict:
    if isinstance(result, dict):
        return result
    return describe(result, samples=samples) | (profiled(result) if profile else {})


def profiled(result: EvalResult) -> dict:
    """The profile of a result: kernels longest first, and the paper's sentence."""
    found = result.profile
    if found is None:
        return {"kernels": []}
    return {
        "kernels": [
            [k.name[:80], k.own, k.calls, k.time_us, k.share, k.mode] for k in found.kernels
        ],
        "total_us": found.total_us,
        "generated_us": found.generated_us,
        "sentence": found.sentence,
    }


def describe(result: EvalResult, *, samples: bool = False) -> dict:
    """What is kept of a result."""
    failure, provenance = result.failure, result.provenance
    row = {
        "task": result.task,
        "outcome": result.outcome.value,
        "cause": f"{failure.stage}/{failure.code}: {failure.message}"[:400] if failure else "",
        "findings": [f.id for f in result.findings],
        "speedup": result.speedup,
        "interval": result.speedup_interval,
        "reference_ms": result.reference_ms,
        "kernel_ms": result.kernel_ms,
        "coverage": result.coverage,
        "displaced": result.displaced,
        "not_measured": result.not_measured,
        "modes": [
            [
                t.mode,
                t.clock,
                t.pairs,
                t.speedup,
                t.speedup_low,
                t.speedup_high,
                t.lead_excess_us,
                t.tail_excess_us,
            ]
            for t in result.timings
        ],
        "stages": {name: round(s, 4) for name, s in provenance.stage_seconds.items()},
        "wall_s": round(provenance.wall_seconds, 4),
    }
    row |= {name: value for name, value in provenance.model_dump().items() if "gate" in name}
    if samples:
        row["samples_us"] = [
            [_us(t.reference_samples_ms), _us(t.kernel_samples_ms)] for t in result.timings
        ]
    return row


def _us(values_ms: Iterable[float]) -> list[float]:
    return [float(f"{1e3 * value:.5g}") for value in values_ms]
