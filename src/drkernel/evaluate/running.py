"""An evaluation from a recipe to a report, or its report again from what is stored.

eval.json                    every number (`drkernel.evaluate.summary.Summary`)
table.txt .md .csv           the tables; the CSV holds every number, one a line
figures/NAME.png .svg .csv   figures with their data
report.html                  all of it on one page
rejudged.jsonl               candidates timed against further references
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from drkernel.collect.policies import open_any_policy
from drkernel.collect.selection import best_turn
from drkernel.evaluate.arrays import Arrays, arrays_of, levels_of
from drkernel.evaluate.baselines import baseline_rows
from drkernel.evaluate.rejudge import Again, Verdicts, judge_again, read_verdicts
from drkernel.evaluate.settings import EvalSettings
from drkernel.evaluate.summary import Summary, summarise, tables_of
from drkernel.report import figures
from drkernel.report.episodes import episode_text
from drkernel.report.page import page, picture
from drkernel.report.rows import Row
from drkernel.report.style import can_draw, save
from drkernel.report.tables import Table
from drkernel.rollout.directory import RunDirectory, write_whole
from drkernel.rollout.evaluator import Evaluator, open_evaluator
from drkernel.rollout.playing import play_all
from drkernel.rollout.tasks import tasks_for
from drkernel.types import Episode, Turn
from kernelgym.schema import Task


async def evaluate_into(
    path: Path, settings: EvalSettings, *, resume: bool, quiet: bool = False
) -> Summary:
    """Run an evaluation, or the rest of one, and write its report."""
    policy = open_any_policy(settings.policy, settings.episode.judging.backend)
    tasks = tasks_for(path, settings.tasks)
    run = RunDirectory(path, settings, "eval", resume=resume)
    run.store_tasks(tasks)
    by_name = {task.name: task for task in tasks}
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
                what="eval",
                quiet=quiet,
            )
            await _further_baselines(evaluator, run.path, settings, episodes, by_name)
    finally:
        await policy.aclose()
    return write_report(run.path, settings, episodes, by_name, policy.name, run.digest)


async def _further_baselines(
    evaluator: Evaluator,
    path: Path,
    settings: EvalSettings,
    episodes: Sequence[Episode],
    tasks: Mapping[str, Task],
) -> Verdicts:
    """Time last and best candidates against the other references, once each."""
    work = []
    for baseline in settings.baselines:
        if baseline == settings.episode.judging.baseline:
            continue
        judging = settings.episode.judging.model_copy(update={"baseline": baseline})
        for episode in episodes:
            for turn in _last_and_best(episode):
                submission = judging.submission(tasks[episode.task], turn.extraction.code or "")
                work.append(Again(episode.id, turn.index, f"baseline {baseline}", submission))
    return await judge_again(evaluator, work, path / "rejudged.jsonl")


def _last_and_best(episode: Episode) -> list[Turn]:
    best = best_turn(episode)
    chosen = {turn.index: turn for turn in (*episode.turns[-1:], best) if turn and turn.correct}
    return list(chosen.values())


def write_report(
    path: Path,
    settings: EvalSettings,
    episodes: Sequence[Episode],
    tasks: Mapping[str, Task],
    policy: str,
    digest: str,
) -> Summary:
    """Numbers, tables, figures and the page of a run that is over."""
    arrays = arrays_of(
        episodes, list(tasks), samples=settings.samples, turns=settings.episode.turns
    )
    summary = summarise(
        arrays,
        levels_of(tasks),
        policy=policy,
        digest=digest,
        protocol=settings.episode.judging.protocol,
        baseline=settings.episode.judging.baseline,
        thresholds=settings.thresholds,
    )
    verdicts = read_verdicts(path / "rejudged.jsonl")
    further = [
        row
        for baseline in settings.baselines
        for row in baseline_rows(arrays, verdicts, baseline, settings.thresholds)
    ]
    summary = summary.model_copy(update={"rows": (*summary.rows, *further)})
    write_whole(path / "eval.json", summary.model_dump_json(indent=2) + "\n")
    tables = tables_of(summary)
    write_tables(path, tables, summary.rows)
    pictures = _draw(path / "figures", arrays, summary)
    text = page(
        f"Evaluation of {policy}",
        facts=_facts(summary),
        notes=[table.note for table in tables[:1] if table.note],
        figures=[picture(one) for one in pictures],
        tables=tables,
        examples=_examples(episodes),
        footer=f"configuration {digest[:16]}; protocol {summary.protocol}",
    )
    write_whole(path / "report.html", text)
    return summary


def _examples(episodes: Sequence[Episode]) -> list[tuple[str, str]]:
    """The best episode, and one without a correct candidate."""
    best = max(
        (one for one in episodes if best_turn(one) is not None),
        key=lambda one: max(turn.reward for turn in one.turns),
        default=None,
    )
    failed = next((one for one in episodes if one.turns and best_turn(one) is None), None)
    chosen = (("Best episode", best), ("An episode without a correct candidate", failed))
    return [(name, episode_text(one)) for name, one in chosen if one is not None]


def write_tables(path: Path, tables: Sequence[Table], rows: Sequence[Row]) -> None:
    """Tables as text and Markdown; every number as CSV."""
    write_whole(path / "table.txt", "\n".join(table.text() for table in tables))
    write_whole(path / "table.md", "\n".join(table.markdown() for table in tables))
    head = ("run", "metric", "group", "turn", "value", "low", "high", "problems", "samples")
    cells = [
        tuple("" if (v := getattr(row, name)) is None else str(v) for name in head) for row in rows
    ]
    write_whole(path / "table.csv", Table("", head, tuple(cells)).csv())


def _draw(directory: Path, arrays: Arrays, summary: Summary) -> list[Path]:
    if not can_draw():
        return []
    drawn = {"by_turn": figures.by_turn(summary), "outcomes": figures.outcome_bars(summary)}
    if summary.timed:
        drawn["fastp_curve"] = figures.fastp_curve(arrays, summary)
        drawn["lazy"] = figures.lazy(arrays, summary)
    return [save(figure, data, directory, name)[1] for name, (figure, data) in drawn.items()]


def _facts(summary: Summary) -> list[tuple[str, str]]:
    last, best = f"turn {summary.turns}", f"best of {summary.turns}"
    best = best if summary.turns > 1 else last
    wanted = [
        ("correct", last), ("correct", best), ("fast@1.2", last), ("fast@1.2", best),
        ("hack ratio", last), ("coverage", last), ("missing", last),
    ]  # fmt: skip
    found = [(metric, turn, summary.find(metric, "all", turn)) for metric, turn in wanted]
    return [(f"{m}, {t}", row.text()) for m, t, row in found if row and row.value is not None]
