"""Choosing a candidate of a sequence without knowing the right answer.

Every candidate is judged against a few others of its sequence, the hubs, in the reference's place:
does it give the same answers, and how long does it take? What the reference said is not used. The
rules:

    last        the last turn that has code
    agreement   most hubs agree with it; the latest of equals
    runtime     shortest time of its own, of those that some hub agrees with
    coverage    largest share of device time in own kernels, of the same
    combined    of those with most agreement the shortest time

A rule is worth the share of the gap between the last turn and the best turn that it closes. A hub
runs where the judge runs, and could lie about who agrees with it: nothing of this may become a
reward. There it has no interpreter of Triton's: for Triton this needs a GPU.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from drkernel.evaluate.rejudge import Again, Verdicts
from drkernel.rollout.settings import JudgingSettings
from drkernel.types import Episode, Turn
from kernelgym.schema import EvalResult, Task

AGREE = "agree "
"""Purpose of a comparison, before the hub's turn."""
RULES = ("last", "agreement", "runtime", "coverage", "combined")


@dataclass(frozen=True)
class Known:
    """What may be known of a candidate without an oracle."""

    turn: Turn
    votes: int
    """Hubs that agree with it."""
    runtime_ms: float | None
    coverage: float | None


def hubs_of(episode: Episode, count: int) -> list[Turn]:
    """The latest turns with code, no two with the same."""
    chosen: list[Turn] = []
    for turn in reversed(episode.turns):
        code = turn.extraction.code
        if code is not None and code not in [one.extraction.code for one in chosen]:
            chosen.append(turn)
        if len(chosen) == count:
            break
    return chosen


def comparisons(episode: Episode, task: Task, judging: JudgingSettings, hubs: int) -> list[Again]:
    """Evaluations that compare every candidate of a sequence with its hubs."""
    work = []
    for hub in hubs_of(episode, hubs):
        reference = as_reference(hub, task)
        if reference is None:
            continue
        for turn in episode.turns:
            code = turn.extraction.code
            if code is not None and code != hub.extraction.code:
                submission = judging.submission(reference, code)
                work.append(Again(episode.id, turn.index, f"{AGREE}{hub.index}", submission))
    return work


def as_reference(turn: Turn, task: Task) -> Task | None:
    """A candidate in the reference's place, with the task's inputs; None where it cannot be."""
    code = turn.extraction.code
    if code is None:
        return None
    try:
        module = ast.parse(task.reference)
        ast.parse(code)
    except (SyntaxError, ValueError):
        return None
    makers = [
        ast.unparse(node)
        for node in module.body
        if isinstance(node, ast.Import | ast.ImportFrom | ast.Assign)
        or (isinstance(node, ast.FunctionDef) and node.name in ("get_inputs", "get_init_inputs"))
    ]
    source = code.rstrip() + "\n\n\n" + "\n".join(makers) + "\n"
    return Task(
        name=f"{task.name}:turn{turn.index + 1}"[:200],
        reference=source,
        entry_point="ModelNew",
        origin="compare",
    )


def known_of(episode: Episode, verdicts: Verdicts, hubs: int) -> list[Known]:
    """What the comparisons say of each candidate."""
    chosen = hubs_of(episode, hubs)
    found = []
    for turn in episode.turns:
        code = turn.extraction.code
        if code is None:
            continue
        results = [
            result
            for hub in chosen
            if (result := verdicts.get((episode.id, turn.index, f"{AGREE}{hub.index}"))) is not None
        ]
        agreeing = [result for result in results if result.correct]
        # A hub says nothing of itself: its runtime comes from comparisons with the other hubs.
        found.append(Known(turn, len(agreeing), _runtime(agreeing), _coverage(agreeing)))
    return found


def _runtime(results: Sequence[EvalResult]) -> float | None:
    times = [result.kernel_ms for result in results if result.kernel_ms is not None]
    return min(times) if times else None


def _coverage(results: Sequence[EvalResult]) -> float | None:
    shares = [result.coverage for result in results if result.coverage is not None]
    return max(shares) if shares else None


def choose(rule: str, known: Sequence[Known]) -> Turn | None:
    """The turn that a rule picks; the last one where the rule has nothing to go by."""
    if not known:
        return None
    last = known[-1].turn
    agreed = [one for one in known if one.votes > 0]
    if rule == "last" or not agreed:
        return last
    most = max(one.votes for one in agreed)
    if rule == "agreement":
        return max(agreed, key=lambda one: (one.votes, one.turn.index)).turn
    if rule == "coverage":
        return max(agreed, key=lambda one: (one.coverage or 0.0, one.turn.index)).turn
    pool = agreed if rule == "runtime" else [one for one in agreed if one.votes == most]
    timed = [one for one in pool if one.runtime_ms is not None]
    if not timed:
        return pool[-1].turn
    return min(timed, key=lambda one: (one.runtime_ms or 0.0, -one.turn.index)).turn


def closed_gap(value: float, last: float, best: float) -> float | None:
    """Share of the way from the last turn to the best one; None where there is no way to go."""
    return (value - last) / (best - last) if best > last else None


def chosen_turns(
    episodes: Sequence[Episode], verdicts: Verdicts, hubs: int
) -> Mapping[str, list[Turn | None]]:
    """The pick of every rule in every sequence, in order."""
    known = [known_of(episode, verdicts, hubs) for episode in episodes]
    return {rule: [choose(rule, one) for one in known] for rule in RULES}
