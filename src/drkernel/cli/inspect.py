"""``drkernel inspect``: the episodes of a run, or one of them turn by turn."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from drkernel.cli import exit_codes
from drkernel.cli.options import Json
from drkernel.types import Episode
from kernelgym.errors import UsageError
from kernelgym.tasks.nearest import did_you_mean


def inspect(
    run: Path,
    episode: str | None = None,
    /,
    *,
    turn: int | None = None,
    prompts: Annotated[bool, Parameter(negative="")] = False,
    whole: Annotated[bool, Parameter(negative="")] = False,
    outcome: str | None = None,
    step: Annotated[int | None, Parameter(negative="")] = None,
    json: Json = False,
) -> int:
    """List the episodes of a run, or show one turn by turn with diffs.

    Parameters
    ----------
    run
        A run directory, or an episodes.jsonl.
    episode
        Id of an episode, e.g. builtin/softmax#0.
    turn
        Only this turn, from 1.
    prompts
        Show what the policy was told, too.
    whole
        Whole sources instead of what changed.
    outcome
        List only episodes with such a turn: correct, mismatch, hack, truncated, ...
    step
        Of a training run; by default its last one.
    """
    path = _log_of(run, step)
    episodes = _episodes(path)
    if episode is None:
        _list(episodes, outcome, json=json)
        return exit_codes.OK
    if episode not in episodes:
        raise UsageError(
            f"no episode {episode!r}{did_you_mean(episode, episodes)}",
            hint=f"drkernel inspect {run}",
        )
    found = episodes[episode]
    if turn is not None and not 1 <= turn <= len(found.turns):
        raise UsageError(
            f"{episode} has turns 1 to {len(found.turns)}, not {turn}",
            hint=f"drkernel inspect {run} {episode!r} --turn {len(found.turns)}",
        )
    if json:
        print(found.model_dump_json(indent=2))
        return exit_codes.OK
    from drkernel.report.episodes import episode_text

    only = None if turn is None else turn - 1
    remarks = _remarks(path, episode)
    print(episode_text(found, only=only, prompts=prompts, whole=whole, remarks=remarks), end="")
    return exit_codes.OK


def _log_of(run: Path, step: int | None) -> Path:
    """The log that holds the episodes: the run's own, or that of a step of a training run."""
    steps = sorted((run / "episodes").glob("step-*.jsonl"))
    if step is not None and not steps:
        raise UsageError(f"{run} is no training run, so it has no step", hint="without --step")
    if steps:
        path = steps[-1] if step is None else run / "episodes" / f"step-{step:06d}.jsonl"
        if path not in steps:
            last = int(steps[-1].stem.rpartition("-")[2])
            raise UsageError(f"{run} has no step {step}", hint=f"--step 1 to {last}")
        return path
    path = run if run.is_file() else run / "episodes.jsonl"
    if not path.exists():
        arms = sorted(one.name for one in (run / "arms").glob("*") if one.is_dir())
        if not arms:
            raise _no_episodes(run)
        raise UsageError(
            f"{run} is a run of drkernel scale: its episodes are those of an arm",
            hint=" or ".join(f"drkernel inspect {run / 'arms' / arm}" for arm in arms),
        )
    return path


def _no_episodes(run: Path) -> UsageError:
    """A run that has not begun to play, or no run at all."""
    from drkernel.rollout.directory import no_run

    if (run / "config.digest").exists():
        return UsageError(
            f"{run} holds no episodes yet", hint="the command that made it, with --resume"
        )
    return no_run(run, "inspect")


def _episodes(path: Path) -> dict[str, Episode]:
    from drkernel.rollout.log import read_log

    return {name: stored.episode() for name, stored in read_log(path).items()}


def _remarks(path: Path, episode: str) -> dict[int, str]:
    """What the turns of an episode were worth in training; nothing for other runs."""
    from drkernel.train.annotations import read_credit

    known = read_credit(path.parent.parent / "credit" / path.name)
    return {turn: found.text() for (name, turn), found in known.items() if name == episode}


def _list(episodes: dict[str, Episode], outcome: str | None, *, json: bool) -> None:
    from drkernel.report.episodes import episode_list, outcome_of

    listed = [
        one
        for one in sorted(episodes.values(), key=lambda one: (one.task, one.sample))
        if outcome is None or any(outcome_of(turn) == outcome for turn in one.turns)
    ]
    if outcome is not None and not listed:
        seen = sorted({outcome_of(turn) for one in episodes.values() for turn in one.turns})
        raise UsageError(
            f"no turn became {outcome!r}{did_you_mean(outcome, seen)}",
            hint=f"--outcome {', '.join(seen)}",
        )
    if json:
        print("[" + ",\n".join(one.model_dump_json() for one in listed) + "]")
    else:
        print(episode_list(listed).text(), end="")
