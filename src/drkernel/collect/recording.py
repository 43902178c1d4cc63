"""A collection: play the teacher's episodes, choose, write the data set and its card.

trajectories.parquet   the rows
README.md              the data card
statistics.json        its numbers
selection.jsonl        one line an episode: kept, or why not
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from drkernel.collect.card import card, statistics_of
from drkernel.collect.dataset import need_pyarrow, row_of, write_parquet
from drkernel.collect.policies import open_any_policy
from drkernel.collect.selection import Choice, select
from drkernel.collect.settings import CollectSettings
from drkernel.rollout.directory import RunDirectory, write_whole
from drkernel.rollout.evaluator import open_evaluator
from drkernel.rollout.log import read_log
from drkernel.rollout.playing import play_all
from drkernel.rollout.tasks import tasks_for
from kernelgym.schema import Task


async def collect_into(
    path: Path, settings: CollectSettings, *, resume: bool, quiet: bool = False
) -> dict[str, Any]:
    """Run a collection, or the rest of one; returns its statistics."""
    need_pyarrow()
    policy = open_any_policy(settings.policy, settings.episode.judging.backend)
    tasks = tasks_for(path, settings.tasks)
    run = RunDirectory(path, settings, "collect", resume=resume)
    run.store_tasks(tasks)
    try:
        async with open_evaluator(settings.gym, policy) as evaluator:
            episodes = await play_all(
                tasks,
                policy,
                evaluator,
                settings.episode,
                log_path=run.episodes,
                samples=settings.samples,
                concurrency=settings.concurrency,
                config_digest=run.digest,
                what="collect",
                quiet=quiet,
            )
    finally:
        await policy.aclose()
    choices = select(episodes, settings.select, turns=settings.episode.turns)
    return write_collection(run, settings, choices, {task.name: task for task in tasks})


def write_collection(
    run: RunDirectory, settings: CollectSettings, choices: list[Choice], tasks: dict[str, Task]
) -> dict[str, Any]:
    """Write everything but the log."""
    ended = {name: stored.ended_at for name, stored in read_log(run.episodes).items()}
    backend = settings.episode.judging.backend
    rows = [
        row_of(
            one.episode, tasks[one.episode.task], backend=backend, ended_at=ended[one.episode.id]
        )
        for one in choices
        if one.kept
    ]
    write_parquet(rows, run.path / "trajectories.parquet")
    statistics = statistics_of(choices, tasks)
    write_whole(run.path / "statistics.json", json.dumps(statistics, indent=2) + "\n")
    write_whole(run.path / "README.md", card(statistics, settings, run.digest))
    lines = [json.dumps({"episode": c.episode.id, "left_out": c.reason}) + "\n" for c in choices]
    write_whole(run.path / "selection.jsonl", "".join(lines))
    return statistics
