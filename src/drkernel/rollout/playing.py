"""A run from start to end: its log, its progress, and what Ctrl-C does.

The first SIGINT or SIGTERM stops cleanly: what had ended is stored, and the same command with
``--resume`` goes on. SIGKILL at any moment loses at most the turns that were under way.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

from drkernel.rollout import engine
from drkernel.rollout.evaluator import Evaluator
from drkernel.rollout.log import EpisodeLog
from drkernel.rollout.progress import Progress
from drkernel.rollout.settings import EpisodeSettings
from drkernel.types import Episode, Policy
from kernelgym.schema import Task


async def play_all(
    tasks: Sequence[Task],
    policy: Policy,
    evaluator: Evaluator,
    settings: EpisodeSettings,
    *,
    log_path: Path,
    samples: int,
    concurrency: int,
    config_digest: str = "",
    what: str = "",
    quiet: bool = False,
) -> list[Episode]:
    """Play everything that the log does not hold yet; all episodes, by task and sample.

    Raises `KeyboardInterrupt` after a signal, once everything is stored.
    """
    stop = asyncio.Event()
    progress = Progress(len(tasks) * samples, what=what, quiet=quiet)
    episodes = []
    with EpisodeLog(log_path) as log, stopping(stop):
        async for episode in engine.run(
            tasks,
            policy,
            evaluator,
            settings,
            samples=samples,
            concurrency=concurrency,
            log=log,
            progress=progress,
            stop=stop,
            config_digest=config_digest,
        ):
            episodes.append(episode)
    progress.close()
    if stop.is_set():
        raise KeyboardInterrupt("the same command with --resume goes on")
    order = {task.name: place for place, task in enumerate(tasks)}
    return sorted(episodes, key=lambda one: (order[one.task], one.sample))


@contextlib.contextmanager
def stopping(stop: asyncio.Event) -> Iterator[None]:
    """SIGINT and SIGTERM set the event; outside the main thread nothing is changed."""
    loop = asyncio.get_running_loop()
    taken = []
    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(RuntimeError, ValueError, NotImplementedError):
            loop.add_signal_handler(number, stop.set)
            taken.append(number)
    try:
        yield
    finally:
        for number in taken:
            loop.remove_signal_handler(number)
