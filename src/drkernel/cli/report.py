"""``drkernel report``: write a run's tables, figures and page again from what is stored."""

from __future__ import annotations

from pathlib import Path

from drkernel.cli import exit_codes
from kernelgym.errors import UsageError


def report(run: Path, /) -> int:
    """Write tables, figures and report.html of a run again; nothing is played or judged.

    Parameters
    ----------
    run
        A run directory of drkernel collect, eval or scale.
    """
    from drkernel.evaluate.stored import kind_of

    kind, digest = kind_of(run)
    if kind == "eval":
        _evaluation(run)
    elif kind == "collect":
        _collection(run)
    elif kind == "scale":
        _scaling(run, digest)
    else:
        raise UsageError(f"{run} is a run of drkernel {kind}, which has no report to write")
    return exit_codes.OK


def _evaluation(run: Path) -> None:
    from drkernel.evaluate.running import write_report
    from drkernel.evaluate.stored import read_evaluation

    stored = read_evaluation(run)
    write_report(run, stored.settings, stored.episodes, stored.tasks, stored.policy, stored.digest)
    print(f"wrote {run / 'report.html'}")


def _collection(run: Path) -> None:
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
    write_collection(directory, settings, choices, read_tasks(run))
    print(f"wrote {run / 'trajectories.parquet'} and {run / 'README.md'}")


def _scaling(run: Path, digest: str) -> None:
    from drkernel.scale.running import rewrite_report

    rewrite_report(run, digest)
    print(f"wrote {run / 'report.html'}")
