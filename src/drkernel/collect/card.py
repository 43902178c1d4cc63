"""The data card: what a collected data set holds, from whom, judged by what, with numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import quantiles
from typing import Any

from drkernel.collect.selection import Choice, best_turn
from drkernel.collect.settings import CollectSettings
from drkernel.types import Episode, Turn
from kernelgym.schema import Task


def outcome_of(turn: Turn) -> str:
    """The verdict, or what became of the turn without one."""
    return turn.result.outcome.value if turn.result is not None else turn.status


def statistics_of(choices: Sequence[Choice], tasks: Mapping[str, Task]) -> dict[str, Any]:
    """Numbers of a collection, for the card and for programs."""
    kept = [choice.episode for choice in choices if choice.kept]
    turns = max((len(choice.episode.turns) for choice in choices), default=0)
    best = [turn for episode in kept if (turn := best_turn(episode)) is not None]
    return {
        "trajectories": len(kept),
        "played": len(choices),
        "tasks": len({episode.task for episode in kept}),
        "left_out": dict(Counter(c.reason for c in choices if not c.kept).most_common()),
        "outcomes_by_turn": [_outcomes(choices, index) for index in range(turns)],
        "best_round": dict(sorted(Counter(turn.index + 1 for turn in best).items())),
        "speedup_quantiles": _quantiles([t.speedup for t in best if t.speedup is not None]),
        "coverage_quantiles": _quantiles([t.coverage for t in best if t.coverage is not None]),
        "tokens": _tokens(kept),
        "categories": dict(
            Counter(_category(tasks[episode.task]) for episode in kept).most_common()
        ),
        "devices": sorted({d for episode in kept for t in episode.turns if (d := _device(t))}),
    }


def _outcomes(choices: Sequence[Choice], index: int) -> dict[str, int]:
    played = [c.episode.turns[index] for c in choices if len(c.episode.turns) > index]
    return dict(Counter(outcome_of(turn) for turn in played).most_common())


def _quantiles(values: list[float]) -> list[float] | None:
    if not values:
        return None
    points = quantiles(values, n=20, method="inclusive") if len(values) > 1 else values * 19
    return [round(points[place], 4) for place in (1, 4, 9, 14, 17)]


def _tokens(episodes: Sequence[Episode]) -> dict[str, int]:
    turns = [turn for episode in episodes for turn in episode.turns]
    return {
        "prompt": sum(turn.generation.prompt_tokens for turn in turns),
        "completion": sum(turn.generation.completion_tokens for turn in turns),
        "longest_prompt": max((turn.generation.prompt_tokens for turn in turns), default=0),
        "longest_answer": max((turn.generation.completion_tokens for turn in turns), default=0),
    }


def _category(task: Task) -> str:
    return task.labels.get("category") or task.labels.get("level") or task.origin or "other"


def _device(turn: Turn) -> str:
    return turn.result.provenance.device if turn.result is not None else ""


def card(statistics: Mapping[str, Any], settings: CollectSettings, digest: str) -> str:
    """The card as Markdown."""
    quantiles_text = statistics["speedup_quantiles"]
    lines = [
        "# Multi-turn kernel-writing trajectories",
        "",
        f"{statistics['trajectories']} trajectories on {statistics['tasks']} tasks, chosen from"
        f" {statistics['played']} that were played.",
        "",
        f"* Written by `{settings.policy.name}`, judged by kernelgym on"
        f" {', '.join(statistics['devices']) or 'no device'}"
        f" (protocol {settings.episode.judging.protocol}, baseline"
        f" {settings.episode.judging.baseline}).",
        f"* Kernel language {settings.episode.judging.backend}, up to {settings.episode.turns}"
        f" turns, prompt variant {settings.episode.variant}, temperature"
        f" {settings.episode.sampling.temperature:g}, seed {settings.episode.seed}.",
        f"* Configuration digest `{digest[:16]}`; everything played is in `episodes.jsonl`.",
    ]
    if settings.policy.name == "teacher":
        lines.append(
            "* The writer is a rule-based program: the rows are for trying pipelines, and say"
            " nothing about any model."
        )
    lines += ["", "## Columns", ""]
    lines += [f"* `{name}`: {text}" for name, text in _COLUMNS.items()]
    lines += ["", "## Outcomes by turn, over everything played", ""]
    lines += _outcome_table(statistics["outcomes_by_turn"])
    lines += ["", "## What was kept", ""]
    lines += [f"* left out, {reason}: {n}" for reason, n in statistics["left_out"].items()]
    lines += [f"* best in round {r}: {n}" for r, n in statistics["best_round"].items()]
    if quantiles_text is None:
        lines.append("* speedup: not measured")
    else:
        points = ", ".join(f"{value:.2f}" for value in quantiles_text)
        lines.append(f"* speedup of the best round at 10, 25, 50, 75, 90%: {points}")
    lines += [f"* tokens, {what}: {n:,}" for what, n in statistics["tokens"].items()]
    lines += [f"* {name}: {n}" for name, n in statistics["categories"].items()]
    return "\n".join(lines) + "\n"


_COLUMNS = {
    "messages": "user and assistant in turn, feedback included",
    "uuid": "number of the trajectory",
    "entry_point": "class of the reference",
    "repo_name": "where the task comes from",
    "module_name": "name of the task",
    "final_speedup": "speedup of the best round; null where nothing was timed",
    "num_rounds": "turns",
    "original_python_code": "the reference",
    "best_round": "the best correct round, from 1",
    "timestamp": "when the trajectory ended, UTC",
    "conversion_mode": "kernel language",
    "enable_thinking": "whether the writer reasoned apart from its answers (reasoning is not kept)",
}


def _outcome_table(by_turn: Sequence[Mapping[str, int]]) -> list[str]:
    names = list(dict.fromkeys(name for outcomes in by_turn for name in outcomes))
    lines = [f"| turn | {' | '.join(names)} |", f"|--:|{'--:|' * len(names)}"]
    for number, outcomes in enumerate(by_turn, 1):
        cells = " | ".join(str(outcomes.get(name, 0)) for name in names)
        lines.append(f"| {number} | {cells} |")
    return lines
