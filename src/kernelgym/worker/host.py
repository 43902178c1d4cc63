"""`EvaluationHost`: submissions in, verdicts out, on one machine.

    async with EvaluationHost(jail_level="L1", device="cpu") as host:
        result = await host.evaluate(submission)

It owns the zygote and every confined process, keeps judges for tasks that come back, limits how
much runs at once, and turns every fault that is not the candidate's into `infrastructure`.
When it is closed no process, temporary directory or control group of it is left.

Not covered: queues, retries and other machines (`kernelgym.broker`), and timing on a GPU (gate).
"""

from __future__ import annotations

import asyncio
import dataclasses
import importlib.util
import os
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from kernelgym import backends
from kernelgym.api import TaskStage
from kernelgym.errors import KernelGymError, ServiceError, TransportError, UsageError
from kernelgym.judge.link import Message
from kernelgym.sandbox.jail import JailSpec
from kernelgym.schema import EvalResult, JailLevel, Submission
from kernelgym.worker import faults, gpu
from kernelgym.worker.conditions import Conditions
from kernelgym.worker.judge import JudgeFault, JudgeProcess
from kernelgym.worker.keeping import JudgeKey, JudgeShelf
from kernelgym.worker.processes import Confined, Flavour, Processes, Start
from kernelgym.worker.turns import Turns, blames_neighbours, ran_out

DEFAULT_JUDGE_MEMORY_MB = 8192
MAX_STUDIES = 512
MAX_PROCESSES = 128
"""Processes and threads of one tree: enough for compilers, soon buried when they are a bomb."""
_FIRST_CALL = "candidate "
"""How judges name the stages in which the candidate computes."""
_PACKAGE = Path(__file__).resolve().parents[1]


GPU_LANES = 4
"""Evaluations at once on a GPU: more of them wait for one another, and make less of it."""


def lanes_of(device: str) -> int:
    """Evaluations at once where nobody says how many."""
    return GPU_LANES if device != "cpu" else os.cpu_count() or 1


class EvaluationHost:
    """Evaluates submissions; use it as an async context manager, in one event loop."""

    def __init__(
        self,
        *,
        jail_level: JailLevel = "L1",
        device: str = "cpu",
        start: Start = "zygote",
        fallback: bool = False,
        concurrency: int | None = None,
        idle_s: float = 120.0,
        reference_timeout_s: float = 120.0,
        judge_memory_mb: int = DEFAULT_JUDGE_MEMORY_MB,
        hidden: Sequence[str] = (),
    ) -> None:
        """``fallback``: take a lower jail level when ``jail_level`` cannot be had, and say so.

        ``concurrency``: evaluations at once; by default one a core, or four on a GPU. ``idle_s``:
        how long a judge is kept for its task. ``hidden``: directories that no confined
        process may see, besides homes, mounts and this checkout.
        """
        on_gpu = device != "cpu"
        if on_gpu and importlib.util.find_spec("cuda") is None:
            raise UsageError(
                f"device {device} needs the package cuda-bindings",
                hint="pip install 'drkernel[gpu]', or --device cpu",
            )
        self.device = device
        index = gpu.index_of(device) if on_gpu else 0
        self._environment = gpu.environment(index) if on_gpu else {}
        if on_gpu and "LD_LIBRARY_PATH" in os.environ:
            self._environment["LD_LIBRARY_PATH"] = os.environ["LD_LIBRARY_PATH"]
        self._gate = gpu.gate_path(index) if on_gpu else None
        self._conditions = Conditions(index) if on_gpu else None
        self._spec = JailSpec(
            level=jail_level,
            memory_bytes=judge_memory_mb << 20,
            processes=MAX_PROCESSES,
            hidden=(*hidden, *_own_directories()),
            fallback=fallback,
            gpu=on_gpu,
        )
        self._reference_timeout_s = reference_timeout_s
        self._processes = Processes(start, gpu=on_gpu)
        self._shelf = JudgeShelf(idle_s)
        self._studies: OrderedDict[JudgeKey, Message] = OrderedDict()
        self.judges: set[JudgeProcess] = set()
        """Judges at work."""
        self._turns = Turns(concurrency or lanes_of(device))
        self._flavours: dict[str, Flavour] = {
            "judge": "native",
            "compiler": "native",
            "candidate": "interpret" if device == "cpu" else "native",
        }

    async def __aenter__(self) -> Self:
        """Start the zygote."""
        await self._processes.start()
        if self._conditions is not None:
            self._conditions.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End everything."""
        if self._conditions is not None:
            await self._conditions.stop()
        await self._shelf.close()
        await self._processes.close()

    async def evaluate(
        self,
        submission: Submission,
        *,
        fresh: bool = False,
        on_stage: Callable[[TaskStage], None] = lambda _: None,
    ) -> EvalResult:
        """Judge one submission. ``fresh`` uses a judge that has seen nothing before.

        ``on_stage`` hears ``preparing`` when its turn comes, and ``running`` when the candidate's
        first checked call begins. Raises `UsageError` for an unknown backend; every other fault is
        a result.
        """
        backends.get(submission.backend)
        run = _Run(submission, self.device, on_stage)
        async with self._turns.one():
            on_stage("preparing")
            result = await self._judged(run, fresh=fresh)
        if not ran_out(result) or not await self._is_crowded(result):
            return result
        async with self._turns.alone():
            await self._shelf.clear()
            result = await self._judged(_Run(submission, self.device, on_stage), fresh=fresh)
        flags = result.provenance.flags | {"repeated": "alone, because memory had run out"}
        provenance = result.provenance.model_copy(update={"flags": flags})
        return result.model_copy(update={"provenance": provenance})

    async def _judged(self, run: _Run, *, fresh: bool) -> EvalResult:
        """A verdict, whatever goes wrong."""
        run.enter("judge")
        key = JudgeKey.of(run.submission, self.device)
        try:
            if not fresh and (judge := await self._shelf.take(key)) is not None:
                # One that was kept may have died since, with nobody to blame: then a new one.
                with suppress(JudgeFault, TransportError):
                    return await self._evaluate(judge, key, run)
            judge = self._new_judge(run.submission)
            return await self._evaluate(judge, None if fresh else key, run)
        except (KernelGymError, OSError) as error:
            return run.fault(error)

    async def _is_crowded(self, result: EvalResult) -> bool:
        """Whether others hold so much of the GPU that they are to blame."""
        if self._gate is None:
            return False
        index = gpu.index_of(self.device)
        with suppress(ServiceError):
            for facts in await asyncio.to_thread(gpu.facts):
                if facts.index == index:
                    return blames_neighbours(result, facts.used_bytes, facts.memory_bytes)
        return False

    async def _evaluate(self, judge: JudgeProcess, key: JudgeKey | None, run: _Run) -> EvalResult:
        """Use a judge, then keep it (for ``key``) if all went well, else end it."""
        self.judges.add(judge)
        judge.on_stage = run.hear
        is_good = False
        try:
            if not judge.is_open:
                await self._open(judge, key, run)
            run.enter("evaluate")
            result = run.finish(await judge.evaluate(run.submission), self._conditions)
            is_good = True
            return result
        finally:
            self.judges.discard(judge)
            if key is not None and is_good:
                await self._shelf.put(key, judge)
            else:
                await judge.close()

    @property
    def processes(self) -> Sequence[Confined]:
        """Every confined process that has not been ended."""
        return self._processes.living

    @property
    def zygote_pid(self) -> int | None:
        """The zygote's root process."""
        return self._processes.zygote_pid

    def _new_judge(self, submission: Submission) -> JudgeProcess:
        spec, flavours = self._spec, self._flavours
        if JudgeKey.of(submission, self.device).timed_on_cpu:
            spec = dataclasses.replace(spec, processors=(self._processor(),))
            # Of one parent: a call's time depends on where libraries lie.
            flavours = flavours | {"candidate": flavours["judge"]}
        return JudgeProcess(
            self._processes,
            spec=spec,
            flavours=flavours,
            environment=self._environment,
            gate=self._gate,
        )

    def _processor(self) -> int:
        """Where judge and candidate are timed in turns: two processors differ by what else they do,
        and by who sits beside them. The one with the fewest judges at work."""
        busy = Counter(number for judge in self.judges for number in judge.processors)
        return min(sorted(os.sched_getaffinity(0)), key=lambda number: busy[number])

    async def _open(self, judge: JudgeProcess, key: JudgeKey | None, run: _Run) -> None:
        """Start a judge; what the first one of a task learned about its reference, later ones get.

        One without ``key`` looks for itself.
        """
        submission = run.submission
        await judge.start()
        opened = await judge.open(
            {
                "task": submission.task.model_dump(mode="json"),
                "precision": submission.precision,
                "device": self.device.partition(":")[0],  # they see one GPU only
                "limit_s": self._reference_timeout_s,
                "memory_bytes": self._spec.memory_bytes,
                "study": None if key is None else self._studies.get(key),
            }
        )
        if key is not None:
            self._studies[key] = opened["study"]
            while len(self._studies) > MAX_STUDIES:
                self._studies.popitem(last=False)
        run.add(opened["stage_seconds"], inside="judge")


class _Run:
    """Times of one request, and how it becomes a result."""

    def __init__(
        self, submission: Submission, device: str, on_stage: Callable[[TaskStage], None]
    ) -> None:
        self.submission = submission
        self._device = device
        self._on_stage = on_stage
        self._is_running = False
        self._started = self._since = time.monotonic()
        self._started_at = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._stage = "queue"
        self._seconds: dict[str, float] = {}

    def enter(self, stage: str) -> None:
        now = time.monotonic()
        self._seconds[self._stage] = self._seconds.get(self._stage, 0.0) + now - self._since
        self._stage, self._since = stage, now

    def hear(self, stage: str) -> None:
        """A judge says what it does: what precedes the candidate's first call is preparation."""
        if not self._is_running and stage.startswith(_FIRST_CALL):
            self._is_running = True
            self._on_stage("running")

    def add(self, seconds: dict[str, float], *, inside: str) -> None:
        """Split stages that a judge reports off the host's stage they happened in."""
        self.enter(inside)
        for stage, spent in seconds.items():
            self._seconds[stage] = self._seconds.get(stage, 0.0) + spent
        rest = self._seconds.get(inside, 0.0) - sum(seconds.values())
        self._seconds[inside] = max(0.0, rest)

    def finish(self, message: Message, conditions: Conditions | None) -> EvalResult:
        """Complete the judge's result, with what was seen of the GPU meanwhile."""
        result = EvalResult.model_validate(message["result"])
        self.enter("done")
        seconds: dict[str, float] = message["stage_seconds"]
        rest = self._seconds.pop("evaluate") - sum(seconds.values())
        stages = {**self._seconds, **seconds, "handover": max(0.0, rest)}
        seen = {} if conditions is None else conditions.since(self._started)
        provenance = result.provenance.model_copy(
            update={
                "flags": result.provenance.flags | seen,
                "stage_seconds": {name: round(spent, 6) for name, spent in stages.items()},
                "wall_seconds": round(time.monotonic() - self._started, 6),
                "started_at": self._started_at,
            }
        )
        return result.model_copy(update={"provenance": provenance})

    def fault(self, error: KernelGymError | OSError) -> EvalResult:
        """A result that blames nobody's candidate."""
        self.enter("done")
        stages = {name: round(spent, 6) for name, spent in self._seconds.items()}
        return faults.infrastructure(
            self.submission,
            error,
            device=self._device,
            stage_seconds=stages,
            wall_seconds=round(time.monotonic() - self._started, 6),
            started_at=self._started_at,
        )


def _own_directories() -> list[str]:
    """What of this installation no confined process needs to see: tasks, and a checkout."""
    own = [str(_PACKAGE / "tasks")]
    checkout = _PACKAGE.parents[1]
    if (checkout / "pyproject.toml").is_file():
        own.append(str(checkout))
    return own


async def _evaluate_once(submission: Submission, device: str, jail_level: JailLevel) -> EvalResult:
    async with EvaluationHost(jail_level=jail_level, device=device, concurrency=1) as host:
        return await host.evaluate(submission)


def evaluate_sync(
    submission: Submission, *, device: str = "cpu", jail_level: JailLevel = "L1"
) -> EvalResult:
    """Start a host, judge one submission, clean up."""
    return asyncio.run(_evaluate_once(submission, device, jail_level))
