"""Rollouts of a step, dynamic sampling, and validation: the parts of the loop that play episodes.

Every step has a log of its own, ``episodes/step-000001.jsonl``: what a killed step had played is
taken from there. Validations have theirs in ``validation/``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from drkernel.algo import drop_degenerate_groups, returns_to_go
from drkernel.rollout import engine
from drkernel.rollout.log import EpisodeLog
from drkernel.train import signals
from drkernel.train.run_state import OutOfTime, TrainRun, seed_at
from drkernel.train.trajectories import Rollouts, rollouts_of
from drkernel.types import Episode
from kernelgym.schema import Task


async def play_step(run: TrainRun, number: int) -> list[Episode]:
    """The episodes of a step, by task and sample.

    With dynamic sampling, prompts whose returns do not vary are replaced by others as long as there
    are rounds left; what is missing then is filled up with the ones that do not vary.
    """
    rule = run.settings.algorithm
    log = run.out / "episodes" / f"step-{number:06d}.jsonl"
    varied: list[Episode] = []
    flat: list[Episode] = []
    names: set[str] = set()
    rounds = rule.dynamic_rounds if rule.dynamic_sampling else 1
    for round_ in range(rounds):
        missing = rule.prompts - len({episode.task for episode in varied})
        tasks = run.problems.draw(missing, step=number, round_=round_, without=names)
        if not tasks:
            break
        names |= {task.name for task in tasks}
        episodes = await play(run, tasks, log, samples=rule.rollouts, place=f"step {number}")
        _record(run, episodes)
        for task in tasks:
            group = [episode for episode in episodes if episode.task == task.name]
            (varied if _varies(run, group) else flat).extend(group)
        if len({episode.task for episode in varied}) >= rule.prompts:
            break
    room = rule.prompts * rule.rollouts - len(varied)
    return varied + flat[: max(0, room)]


def _varies(run: TrainRun, group: Sequence[Episode]) -> bool:
    rule = run.settings.algorithm
    table = rollouts_of(group, turns=run.settings.episode.turns, gamma=rule.gamma)
    returns = returns_to_go(table.rewards, table.valid, rule.gamma)
    return bool(drop_degenerate_groups(returns, table.group, table.valid).any())


def _record(run: TrainRun, episodes: Sequence[Episode]) -> None:
    """Tell the curriculum how each group went."""
    groups: dict[str, list[Episode]] = {}
    for episode in episodes:
        if episode.stopped not in ("infrastructure", "policy_error"):
            groups.setdefault(episode.task, []).append(episode)
    for task, group in groups.items():
        rewards = [sum(t.reward for t in episode.turns if t.valid) for episode in group]
        solved = [any(turn.correct for turn in episode.turns) for episode in group]
        run.problems.record(task, rewards, solved)


async def play(
    run: TrainRun, tasks: Sequence[Task], log: Path, *, samples: int, place: str
) -> list[Episode]:
    """Episodes of these tasks, in the order of tasks and samples; raises `OutOfTime`."""
    log.parent.mkdir(parents=True, exist_ok=True)
    seed = seed_at(run.settings.seed, place)
    settings = run.settings.episode.model_copy(update={"seed": seed})
    found: dict[tuple[str, int], Episode] = {}
    with EpisodeLog(log) as opened:
        async for episode in engine.run(
            tasks,
            run.policy,
            run.evaluator,
            settings,
            samples=samples,
            concurrency=run.settings.concurrency,
            log=opened,
            stop=run.stop,
            version=run.done,
        ):
            found[episode.task, episode.sample] = episode
    wanted = [(task.name, sample) for task in tasks for sample in range(samples)]
    if run.stop.is_set() and any(key not in found for key in wanted):
        raise OutOfTime
    return [found[key] for key in wanted]


async def validate(run: TrainRun) -> dict[str, float]:
    """Play the validation tasks; the score is the mean reward of the last turn."""
    samples = run.settings.eval_samples
    log = run.out / "validation" / f"step-{run.done:06d}.jsonl"
    # the same draws at every step: what differs is the policy
    episodes = await play(run, run.validation, log, samples=samples, place="validation")
    turns = run.settings.episode.turns
    table = rollouts_of(episodes, turns=turns, gamma=run.settings.algorithm.gamma)
    found = signals.play_signals(table, run.settings.episode.reward)
    run.scores[run.done] = found["score"] = _score(table)
    found["checkpoints"] = float(len(run.scores))
    found["best_step"] = float(run.done if run.best is None else run.best)
    return {f"validation/{name}": value for name, value in found.items()}


def _score(table: Rollouts) -> float:
    """Mean reward of the last turn over all episodes; a turn that was not played has none: 0."""
    return float(np.mean(table.rewards[:, -1])) if table.rewards.size else 0.0
