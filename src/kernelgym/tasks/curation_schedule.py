"""Drawing tasks for a step: easy ones first, several sources mixed, the same for the same seed.

`easy_to_hard` says which part of the tasks, sorted by difficulty, may be drawn at a step;
`mixture` says how many come from each source; `draw_tasks` draws. Imports no torch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from kernelgym.tasks.curation import TaskFacts
from kernelgym.tasks.synth.draw import Draw


def competence(step: int, steps: int, *, start: float = 0.2, power: float = 2.0) -> float:
    """Share of the tasks, easiest first, that is open at a step: ``start`` at step 0, then rising.

    With power 2 the share grows as a square root, so that each newly opened task is drawn about as
    often as the others were.
    """
    if steps <= 0:
        return 1.0
    done = min(1.0, max(0.0, step / steps))
    return float((start**power + done * (1.0 - start**power)) ** (1.0 / power))


def easy_to_hard(
    facts: Sequence[TaskFacts], step: int, steps: int, *, start: float = 0.2
) -> list[TaskFacts]:
    """Tasks open at a step, easiest first.

    Difficulty is the share not solved, where it is known, and the number of operators decides
    between tasks that are alike in that; names break the last ties.
    """
    ordered = sorted(facts, key=_difficulty)
    count = math.ceil(competence(step, steps, start=start) * len(ordered) - 1e-9)
    return ordered[: max(1, count)] if ordered else []


def _difficulty(fact: TaskFacts) -> tuple[float, int, str]:
    unsolved = 0.5 if fact.pass_rate is None else 1.0 - fact.pass_rate
    return (unsolved, fact.operators, fact.task)


def mixture(shares: Mapping[str, float], count: int) -> dict[str, int]:
    """Whole numbers that add up to ``count``, as near to the shares as can be."""
    total = sum(shares.values())
    if total <= 0 or any(share < 0 for share in shares.values()):
        raise ValueError("shares must be positive")
    exact = {source: count * share / total for source, share in shares.items()}
    whole = {source: math.floor(value) for source, value in exact.items()}
    by_rest = sorted(shares, key=lambda source: (whole[source] - exact[source], source))
    for source in by_rest[: count - sum(whole.values())]:
        whole[source] += 1
    return whole


def draw_tasks(
    facts: Sequence[TaskFacts],
    count: int,
    *,
    seed: int,
    step: int,
    weights: Mapping[str, float] | None = None,
    shares: Mapping[str, float] | None = None,
) -> list[str]:
    """Names of ``count`` different tasks, by weight, within the shares of their sources.

    A source that holds too few gives what it has, and the others fill up.
    """
    draw = Draw("curation", seed, step)
    pool = list(facts)
    chosen: list[str] = []
    for source, wanted in sorted(mixture(shares, count).items()) if shares else []:
        chosen += _without_replacement(
            [f for f in pool if f.source == source], wanted, weights, draw
        )
    taken = set(chosen)
    rest = [f for f in pool if f.task not in taken and (not shares or f.source in shares)]
    return chosen + _without_replacement(rest, count - len(chosen), weights, draw)


def _without_replacement(
    facts: Sequence[TaskFacts], count: int, weights: Mapping[str, float] | None, draw: Draw
) -> list[str]:
    """The tasks with the smallest waiting times, each exponential with its weight as rate."""
    waits = []
    for fact in sorted(facts, key=lambda fact: fact.task):
        weight = 1.0 if weights is None else weights[fact.task]
        wait = -math.log(1.0 - draw.unit()) / weight if weight > 0 else math.inf
        waits.append((wait, fact.task))
    return [task for wait, task in sorted(waits)[: max(0, count)] if wait < math.inf]
