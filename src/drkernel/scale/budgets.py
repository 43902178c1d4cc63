"""What a budget buys: the best candidate so far, by evaluations and by tokens.

Sequential turns see what came before and so have long prompts; parallel samples have short ones. At
an equal number of evaluations sequences cost more tokens, so both axes are shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from drkernel.evaluate.arrays import Arrays, Floats
from drkernel.types import Turn


@dataclass(frozen=True)
class Curve:
    """Share of sequences whose best candidate within a budget reaches a threshold."""

    arm: str
    unit: str
    """``evaluations`` or ``tokens``, of one sequence."""
    budgets: tuple[float, ...]
    values: tuple[float, ...]


def good_table(arrays: Arrays, threshold: float) -> Floats:
    """[P, K, T] of 0 and 1: correct and fast enough; correct, where nothing was timed."""
    if not arrays.timed:
        return np.nan_to_num(arrays.correct, nan=0.0)
    return (np.nan_to_num(arrays.speedups, nan=0.0) >= threshold).astype(np.float64)


def by_evaluations(arm: str, arrays: Arrays, threshold: float) -> Curve:
    """The curve over 1 to T evaluations."""
    best = np.maximum.accumulate(good_table(arrays, threshold), axis=2)
    values = tuple(float(best[:, :, t].mean()) for t in range(arrays.turns))
    return Curve(arm, "evaluations", tuple(float(t + 1) for t in range(arrays.turns)), values)


def by_tokens(arm: str, arrays: Arrays, threshold: float, budgets: Sequence[float]) -> Curve:
    """The curve over token budgets, prompts and answers together."""
    good = good_table(arrays, threshold)
    spent = np.cumsum(np.nan_to_num(arrays.table(tokens_of), nan=0.0), axis=2)
    values = []
    for budget in budgets:
        within = good * (spent <= budget)
        values.append(float(within.max(axis=2).mean()) if within.size else 0.0)
    return Curve(arm, "tokens", tuple(budgets), tuple(values))


def token_budgets(arms: Sequence[Arrays], points: int = 24) -> list[float]:
    """Budgets up to what the dearest sequence of the cheapest arm costs in the median."""
    totals = [float(np.median(np.nansum(arrays.table(tokens_of), axis=2))) for arrays in arms]
    if not totals or max(totals) <= 0:
        return []
    return [round(float(b), 1) for b in np.geomspace(max(totals) / 100, max(totals), points)]


def tokens_of(turn: Turn) -> float:
    """Tokens of one turn."""
    return float(turn.generation.prompt_tokens + turn.generation.completion_tokens)
