"""``drkernel report``: write a run's tables, figures and page again from what is stored."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from drkernel.cli import exit_codes
from drkernel.cli.options import Json
from drkernel.cli.playing import show
from kernelgym.errors import UsageError


def report(*runs: Path, out: Path | None = None, json: Json = False) -> int:
    """Write tables, figures and report.html from what is stored; nothing is played or judged.

    One run of collect, eval or scale: its own report again. Runs of train, with runs of eval and
    scale that measured their checkpoints: arms and seeds side by side, the paper's claims checked.

    Parameters
    ----------
    runs
        Run directories.
    out
        Directory of a report on training runs; by default the run's own, where there is one only.
    """
    from drkernel.evaluate.stored import kind_of

    if not runs:
        raise UsageError("no run is named", hint="drkernel report RUN...")
    kind, digest = kind_of(runs[0])
    if len(runs) > 1 or kind == "train":
        return _experiment(runs, out, json)
    run = runs[0]
    if kind == "eval":
        _evaluation(run, json)
    elif kind == "collect":
        _collection(run, json)
    elif kind == "scale":
        _scaling(run, digest, json)
    else:
        raise UsageError(
            f"{run} is a run of drkernel {kind}, which has no report to write",
            hint=f"drkernel inspect {run}",
        )
    return exit_codes.OK


def _experiment(runs: Sequence[Path], out: Path | None, json: bool) -> int:
    from drkernel.miniature.runs import read_experiment
    from drkernel.miniature.writing import warnings_of, write_miniature

    experiment = read_experiment(runs)
    if not experiment.trained:
        raise UsageError(
            "none of these is a run of drkernel train",
            hint="drkernel compare RUN RUN for runs of drkernel eval",
        )
    place = out or (runs[0] / "report" if len(runs) == 1 else None)
    if place is None:
        raise UsageError("a report on several runs needs a place", hint="--out DIRECTORY")
    tables = write_miniature(experiment, place)
    if json:
        print((place / "miniature.json").read_text(encoding="utf-8"), end="")
        return exit_codes.OK
    for table in tables:
        print(table.text())
    for warning in warnings_of(experiment):
        print(f"note: {warning}")
    print(f"wrote {place / 'report.html'}")
    return exit_codes.OK


def _evaluation(run: Path, json: bool) -> None:
    from drkernel.evaluate.running import write_report
    from drkernel.evaluate.stored import read_evaluation
    from drkernel.evaluate.summary import tables_of

    stored = read_evaluation(run)
    summary = write_report(
        run, stored.settings, stored.episodes, stored.tasks, stored.policy, stored.digest
    )
    show(summary, tables_of(summary), run, json=json)


def _collection(run: Path, json: bool) -> None:
    from drkernel.cli.collect import show_statistics
    from drkernel.collect.recording import write_collection
    from drkernel.collect.selection import select
    from drkernel.collect.settings import CollectSettings
    from drkernel.config import load
    from drkernel.rollout.directory import RunDirectory, read_tasks
    from drkernel.rollout.log import read_episodes

    settings = load(CollectSettings, [run / "config.json"])
    directory = RunDirectory(run, settings, "collect", resume=True)
    episodes = read_episodes(directory.episodes)
    choices = select(episodes, settings.select, turns=settings.episode.turns)
    statistics = write_collection(directory, settings, choices, read_tasks(run))
    show_statistics(statistics, run, as_json=json)


def _scaling(run: Path, digest: str, json: bool) -> None:
    from drkernel.scale.running import rewrite_report
    from drkernel.scale.summary import tables_of

    summary = rewrite_report(run, digest)
    show(summary, tables_of(summary), run, json=json)
