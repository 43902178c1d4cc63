"""Many episodes at once: start them, keep every turn, hand on each episode as it ends.

    async for episode in run(tasks, policy, evaluator, settings, samples=8, log=log):
        ...

With a log, what it holds already is not played again: finished episodes are handed on first, begun
ones go on where they stood. Setting ``stop``, or leaving the loop, ends everything that is under
way; turns that had ended by then are in the log. When nothing but failures of the policy or the
gym comes back, the run ends with `ServiceError` rather than with a log full of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

from drkernel.rollout.episode import episode_id, run_episode
from drkernel.rollout.evaluator import Evaluator
from drkernel.rollout.log import EpisodeLog, Stored, read_log
from drkernel.rollout.progress import Progress
from drkernel.rollout.settings import EpisodeSettings
from drkernel.types import Episode, Policy, Turn
from kernelgym.errors import ServiceError, UsageError
from kernelgym.schema import Task

DEFAULT_CONCURRENCY = 64
_PATIENCE = 16
"""Episodes in a row that may end in the same failure of the machinery, at the least."""


@dataclass(frozen=True)
class _Job:
    task: Task
    sample: int

    @property
    def id(self) -> str:
        return episode_id(self.task, self.sample)


async def run(
    tasks: Sequence[Task],
    policy: Policy,
    evaluator: Evaluator,
    settings: EpisodeSettings,
    *,
    samples: int = 1,
    concurrency: int = DEFAULT_CONCURRENCY,
    log: EpisodeLog | None = None,
    progress: Progress | None = None,
    stop: asyncio.Event | None = None,
    version: int = 0,
    config_digest: str = "",
) -> AsyncIterator[Episode]:
    """Play ``samples`` episodes of every task, ``concurrency`` at once; yields them as they end.

    ``log`` must have been entered. ``version`` is the version of the policy's weights.

    Raises:
        UsageError: two tasks of one name, or a request that the policy or the gym refuses.
        ServiceError: the policy or the gym fails everything.
    """
    _check_names(tasks)
    known = read_log(log.path) if log is not None else {}
    jobs = [_Job(task, sample) for task in tasks for sample in range(samples)]
    for job in jobs:
        stored = known.get(job.id)
        if stored is not None and stored.finished:
            _check_same(stored, job)
            if progress is not None:
                progress.episode()
            yield stored.episode()
    open_jobs = [job for job in jobs if not (job.id in known and known[job.id].finished)]
    crew = _Crew(
        policy, evaluator, settings, log, progress, known, version, config_digest, concurrency
    )
    async for episode in crew.play(open_jobs, stop):
        yield episode


def _check_names(tasks: Sequence[Task]) -> None:
    names = [task.name for task in tasks]
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise UsageError(f"two tasks of one run are called {twice!r}")


def _check_same(stored: Stored, job: _Job) -> None:
    if stored.head["task_hash"] != job.task.content_hash:
        raise UsageError(f"the log holds {job.id} of another reference", hint="--out ANOTHER")


class _Crew:
    """Workers that take jobs from one list."""

    def __init__(
        self,
        policy: Policy,
        evaluator: Evaluator,
        settings: EpisodeSettings,
        log: EpisodeLog | None,
        progress: Progress | None,
        known: dict[str, Stored],
        version: int,
        config_digest: str,
        concurrency: int,
    ) -> None:
        self._policy, self._evaluator, self._settings = policy, evaluator, settings
        self._log, self._progress, self._known = log, progress, known
        self._version, self._digest = version, config_digest
        self._concurrency = max(1, concurrency)
        self._failed_in_a_row = 0

    async def play(self, jobs: list[_Job], stop: asyncio.Event | None) -> AsyncIterator[Episode]:
        waiting = iter(jobs)
        running: set[asyncio.Task[Episode]] = set()
        stopper = asyncio.create_task(stop.wait()) if stop is not None else None
        try:
            while True:
                for job in waiting:
                    running.add(asyncio.create_task(self._one(job)))
                    if len(running) >= self._concurrency:
                        break
                if not running:
                    return
                watched: set[asyncio.Future[Any]] = {*running}
                if stopper is not None:
                    watched.add(stopper)
                await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
                for task in [one for one in running if one.done()]:
                    running.discard(task)
                    episode = task.result()
                    self._watch(episode)
                    yield episode
                if stopper is not None and stopper.done():
                    return
        finally:
            leftover: list[asyncio.Future[Any]] = [*running]
            if stopper is not None:
                leftover.append(stopper)
            for one in leftover:
                one.cancel()
            await asyncio.gather(*leftover, return_exceptions=True)

    async def _one(self, job: _Job) -> Episode:
        stored = self._known.get(job.id)
        earlier = () if stored is None else stored.episode().turns
        head = self._head(job)

        def keep(turn: Turn) -> None:
            if self._log is not None:
                self._log.turn(head, turn)
            if self._progress is not None:
                self._progress.turn(turn)

        episode = await run_episode(
            job.task,
            self._policy,
            self._evaluator,
            self._settings,
            sample=job.sample,
            resume_from=earlier,
            on_turn=keep,
            version=self._version,
            config_digest=self._digest,
        )
        if self._log is not None:
            self._log.end(head, episode.stopped)
        if self._progress is not None:
            self._progress.episode()
        return episode

    def _head(self, job: _Job) -> dict[str, object]:
        return {
            "id": job.id,
            "task": job.task.name,
            "task_hash": job.task.content_hash,
            "sample": job.sample,
            "seed": self._settings.seed,
            "policy": self._policy.name,
            "version": self._version,
            "config_digest": self._digest,
        }

    def _watch(self, episode: Episode) -> None:
        """Give up when nothing works any more."""
        if episode.stopped not in ("policy_error", "infrastructure"):
            self._failed_in_a_row = 0
            return
        self._failed_in_a_row += 1
        if self._failed_in_a_row >= max(_PATIENCE, 2 * self._concurrency):
            last = episode.turns[-1]
            if episode.stopped == "policy_error":
                raise ServiceError(
                    f"the policy {self._policy.name} fails every call: {last.generation.error}",
                    hint="the same with --resume, once it answers again",
                )
            raise ServiceError(
                f"the gym or the references fail every evaluation, {episode.id} the last",
                hint="kernelgym doctor; then the same with --resume",
            )
