"""Numbers of a run: correctness, Fast@p, hacks, coverage, by turn, best so far and by level.

All definitions are `drkernel.algo`'s; here they are only applied. Rates are over all samples that
were planned; intervals resample problems. Where nothing was timed (no GPU), Fast@p is None.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from drkernel.algo import (
    clustered_interval,
    correct_rate,
    fast_at_p,
    fast_ratio,
    fast_samples,
    hack_ratio,
    turn_flows,
)
from drkernel.evaluate.arrays import Arrays
from drkernel.report.rows import Row
from drkernel.types import Turn
from kernelgym.schema import EvalResult

THRESHOLDS = (1.0, 1.2, 1.5, 2.0)


def rows_of(
    arrays: Arrays, groups: Mapping[str, Sequence[str]], thresholds: Sequence[float] = THRESHOLDS
) -> list[Row]:
    """Every number: for all tasks by turn and best so far, for each level at the end."""
    rows = []
    for turn in range(arrays.turns):
        rows += _at(arrays, "all", thresholds, turn=turn)
    for best_of in range(2, arrays.turns + 1):
        rows += _at(arrays, "all", thresholds, best_of=best_of)
    for name, tasks in groups.items():
        part = arrays.of(tasks)
        rows += _at(part, name, thresholds, turn=arrays.turns - 1)
        if arrays.turns > 1:
            rows += _at(part, name, thresholds, best_of=arrays.turns)
    return rows


def _at(
    arrays: Arrays,
    group: str,
    thresholds: Sequence[float],
    *,
    turn: int | None = None,
    best_of: int | None = None,
) -> list[Row]:
    where = f"best of {best_of}" if best_of else f"turn {(turn or 0) + 1}"

    def row(metric: str, value: float | None, interval: tuple[float, float] | None = None) -> Row:
        low, high = interval or (None, None)
        return Row(
            metric=metric,
            group=group,
            turn=where,
            value=_or_none(value),
            low=_or_none(low),
            high=_or_none(high),
            problems=len(arrays.tasks),
            samples=len(arrays.tasks) * arrays.samples,
        )

    correct = arrays.correct
    right = fast_samples(correct, 0.0, turn=turn, best_of=best_of)
    rows = [
        row(
            "correct",
            correct_rate(correct, turn=turn, best_of=best_of),
            clustered_interval(right),
        )
    ]
    for p in thresholds:
        metric = f"fast@{p:g}"
        if not arrays.timed:
            rows.append(row(metric, None))
            continue
        speedups = arrays.speedups
        table = fast_samples(speedups, p, turn=turn, best_of=best_of)
        value = fast_at_p(speedups, p, turn=turn, best_of=best_of)
        rows.append(row(metric, value, clustered_interval(table)))
    if arrays.timed:
        ratio = fast_ratio(arrays.speedups, turn=turn, best_of=best_of)
        rows.append(row("fast@1.2 / fast@1", ratio))
    if turn is not None:
        rows += [row(name, value) for name, value in _means(list(arrays.all_turns(turn)))]
        missing = np.isnan(correct[:, :, turn])  # lost, or never reached
        rows.append(row("missing", float(missing.mean()) if missing.size else None))
    return rows


def _means(turns: list[Turn]) -> list[tuple[str, float | None]]:
    """Hacks over what was evaluated; coverage and displaced work over what was correct."""
    outcomes = [turn.result.outcome for turn in turns if turn.result is not None]
    right = [turn for turn in turns if turn.correct]
    return [
        ("hack ratio", hack_ratio(outcomes)),
        ("coverage", _mean([turn.coverage for turn in right])),
        ("displaced", _mean([turn.displaced for turn in right])),
    ]


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def _or_none(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else float(value)


def flows_of(arrays: Arrays) -> list[dict[str, Any]]:
    """How samples moved between failed, correct and fast from turn to turn."""
    states = arrays.speedups if arrays.timed else arrays.correct
    return [
        {
            "from_turn": index + 1,
            "improved": flow.improved,
            "regressed": flow.regressed,
            "counts": flow.counts.tolist(),
        }
        for index, flow in enumerate(turn_flows(states))
    ]


def cost_of(arrays: Arrays) -> dict[str, float | int | None]:
    """What the run cost: tokens, money where prices are known, evaluations, seconds."""
    turns = list(arrays.all_turns())
    prices = [turn.generation.cost_usd for turn in turns]
    known = [price for price in prices if price is not None]
    results = [turn.result for turn in turns if turn.result is not None]
    times = [result.provenance.gate_held_seconds for result in results]
    held = [seconds for seconds in times if seconds is not None]
    return {
        "episodes": sum(episode is not None for row in arrays.episodes for episode in row),
        "turns": len(turns),
        "prompt_tokens": sum(turn.generation.prompt_tokens for turn in turns),
        "completion_tokens": sum(turn.generation.completion_tokens for turn in turns),
        "cost_usd": round(sum(known), 6) if known and len(known) == len(prices) else None,
        "evaluations": len(results),
        "judging_seconds": round(sum(_judging_s(result) for result in results), 1),
        "gpu_held_seconds": round(sum(held), 1) if held else None,
        "generating_seconds": round(sum(turn.seconds.get("generate", 0.0) for turn in turns), 1),
    }


def _judging_s(result: EvalResult) -> float:
    """Wall seconds of an evaluation without its wait for a place."""
    known = result.provenance
    return max(0.0, known.wall_seconds - known.stage_seconds.get("queue", 0.0))
