"""A scaling run from a recipe to a report.

starts.jsonl                 the first turns that all sequential arms share
arms/NAME/episodes.jsonl     one arm
rejudged.jsonl               winners verified, candidates compared
scale.json, table.*, figures/, report.html
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from drkernel.collect.policies import open_any_policy
from drkernel.collect.selection import best_turn
from drkernel.config import load
from drkernel.evaluate.rejudge import Again, Verdicts, judge_again, read_verdicts
from drkernel.evaluate.running import write_tables
from drkernel.report import scaling
from drkernel.report.page import page, picture
from drkernel.report.style import can_draw, save
from drkernel.rollout.directory import RunDirectory, read_tasks, write_whole
from drkernel.rollout.evaluator import Evaluator, open_evaluator
from drkernel.rollout.log import read_episodes
from drkernel.rollout.playing import play_all
from drkernel.rollout.settings import EpisodeSettings
from drkernel.rollout.tasks import tasks_for
from drkernel.scale.arms import (
    arm_settings,
    begin_with,
    grouped,
    log_of,
    samples_of,
    start_settings,
)
from drkernel.scale.choosing import comparisons
from drkernel.scale.numbers import summarise
from drkernel.scale.settings import ScaleSettings
from drkernel.scale.summary import ScaleSummary, tables_of
from drkernel.types import Episode, Policy
from kernelgym.schema import Task

Arms = dict[str, list[Episode]]


async def scale_into(
    path: Path, settings: ScaleSettings, *, resume: bool, quiet: bool = False
) -> ScaleSummary:
    """Run everything, or the rest of it, and write the report."""
    policy = open_any_policy(settings.policy, settings.episode.judging.backend)
    tasks = tasks_for(path, settings.tasks)
    run = RunDirectory(path, settings, "scale", resume=resume)
    run.store_tasks(tasks)
    try:
        async with open_evaluator(settings.gym, policy) as evaluator:
            player = _Player(run, settings, tasks, policy, evaluator, quiet)
            arms = await player.arms()
            await _judge_more(evaluator, run.path, settings, arms, {t.name: t for t in tasks})
    finally:
        await policy.aclose()
    return write_report(run.path, settings, arms, [task.name for task in tasks], run.digest)


class _Player:
    """Plays one arm after another."""

    def __init__(
        self,
        run: RunDirectory,
        settings: ScaleSettings,
        tasks: Sequence[Task],
        policy: Policy,
        evaluator: Evaluator,
        quiet: bool,
    ) -> None:
        self._run, self._settings, self._tasks = run, settings, tasks
        self._policy, self._evaluator, self._quiet = policy, evaluator, quiet

    async def arms(self) -> Arms:
        """Episodes by arm; a parallel arm's laid out as sequences."""
        starts: list[Episode] = []
        if any(arm != "parallel" for arm in self._settings.arms):
            starts = await self._play(
                "first turns",
                self._run.path / "starts.jsonl",
                start_settings(self._settings),
                self._settings.samples,
            )
        found: Arms = {}
        for arm in self._settings.arms:
            log_path = log_of(self._run.path, arm)
            log_path.parent.mkdir(parents=True, exist_ok=True)
            if arm != "parallel":
                begin_with(log_path, starts)
            episodes = await self._play(
                arm, log_path, arm_settings(self._settings, arm), samples_of(self._settings, arm)
            )
            found[arm] = grouped(episodes, self._settings.turns) if arm == "parallel" else episodes
        return found

    async def _play(
        self, what: str, log_path: Path, settings: EpisodeSettings, samples: int
    ) -> list[Episode]:
        return await play_all(
            self._tasks,
            self._policy,
            self._evaluator,
            settings,
            log_path=log_path,
            samples=samples,
            concurrency=self._settings.concurrency,
            config_digest=self._run.digest,
            what=what,
            quiet=self._quiet,
        )


async def _judge_more(
    evaluator: Evaluator,
    path: Path,
    settings: ScaleSettings,
    arms: Arms,
    tasks: Mapping[str, Task],
) -> None:
    """Verify winners, and compare candidates where choosing is asked for."""
    judging = settings.episode.judging
    for arm, episodes in arms.items():
        work: list[Again] = []
        for episode in episodes:
            task, best = tasks[episode.task], best_turn(episode)
            if settings.verify and best is not None:
                submission = judging.submission(task, best.extraction.code or "")
                work.append(Again(episode.id, best.index, "verify", submission))
            if settings.choosing.enabled and arm == settings.choosing.arm:
                work += comparisons(episode, task, judging, settings.choosing.hubs)
        await judge_again(
            evaluator, work, rejudged_path(path, arm), concurrency=settings.concurrency
        )


def rejudged_path(path: Path, arm: str) -> Path:
    """Where an arm's further verdicts are kept."""
    return path / "arms" / arm / "rejudged.jsonl"


def write_report(
    path: Path, settings: ScaleSettings, arms: Arms, tasks: Sequence[str], digest: str
) -> ScaleSummary:
    """Numbers, tables, figures and the page."""
    verdicts: dict[str, Verdicts] = {arm: read_verdicts(rejudged_path(path, arm)) for arm in arms}
    summary = summarise(settings, arms, verdicts, tasks, digest)
    write_whole(path / "scale.json", summary.model_dump_json(indent=2) + "\n")
    tables = tables_of(summary)
    write_tables(path, tables, summary.rows)
    pictures = _draw(path / "figures", summary) if can_draw() else []
    text = page(
        f"Test-time scaling of {summary.policy}",
        notes=[table.note for table in tables[:1] if table.note],
        figures=[picture(one) for one in pictures],
        tables=tables,
        footer=f"configuration {digest[:16]}; M {settings.max_turns}, I {settings.iterations},"
        f" w {settings.w}",
    )
    write_whole(path / "report.html", text)
    return summary


def _draw(directory: Path, summary: ScaleSummary) -> list[Path]:
    drawn = {
        "arms_by_turn": scaling.arms_by_turn(summary),
        "by_evaluations": scaling.budget_curves(summary, "evaluations"),
        "by_tokens": scaling.budget_curves(summary, "tokens"),
    }
    return [save(figure, data, directory, name)[1] for name, (figure, data) in drawn.items()]


def rewrite_report(path: Path, digest: str) -> ScaleSummary:
    """The report of a run that is over, from what is stored."""
    settings = load(ScaleSettings, [path / "config.json"])
    arms: Arms = {}
    for arm in settings.arms:
        episodes = read_episodes(log_of(path, arm))
        arms[arm] = grouped(episodes, settings.turns) if arm == "parallel" else episodes
    return write_report(path, settings, arms, list(read_tasks(path)), digest)
