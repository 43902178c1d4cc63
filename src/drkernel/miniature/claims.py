"""What the paper says, what is seen here, and whether the two agree.

A claim is a difference that should be above 0. On held-out tasks it is paired by task, with seeds
as further samples of a task; in training it is paired by step over the last third, where every arm
was given the same tasks (steps are taken as independent). The verdict follows from the 95% interval
alone: all above 0 agrees, all below disagrees, and anything else cannot tell.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from drkernel.algo import PairedDifference, fast_samples, paired_difference
from drkernel.evaluate.arrays import Floats
from drkernel.evaluate.compare import shared_tasks
from drkernel.miniature.curves import curve_of, late
from drkernel.miniature.runs import COLD_START, FULL, Experiment
from drkernel.report.rows import number_text
from drkernel.rollout.log import read_episodes
from drkernel.scale.arms import log_of

P = 1.2
"""Threshold of the held-out metric."""
Verdict = Literal["agrees", "disagrees", "cannot tell"]
TRLOO, UNCHECKED, GRPO = "TRLOO", "TRLOO, no hack check", "GRPO"
MRS, PR = "TRLOO + MRS", "TRLOO + MRS + PR"


@dataclass(frozen=True)
class Seen:
    """A claim beside what was measured."""

    claim: str
    measure: str
    """The difference that should be above 0."""
    difference: PairedDifference | None
    """None where it could not be computed."""
    why_not: str = ""
    """What is missing then."""

    @property
    def verdict(self) -> Verdict:
        """From the interval alone."""
        if self.difference is None or not all(map(math.isfinite, self.difference.interval)):
            return "cannot tell"
        low, high = self.difference.interval
        return "agrees" if low > 0 else "disagrees" if high < 0 else "cannot tell"

    @property
    def seen(self) -> str:
        """The difference with its interval, or what is missing."""
        if self.difference is None:
            return self.why_not
        return number_text(self.difference.difference, *self.difference.interval)


class Missing(Exception):
    """What a claim needs and was not measured."""


@dataclass(frozen=True)
class _Claim:
    text: str
    measure: str
    compute: Callable[[Experiment], PairedDifference]


def check_all(experiment: Experiment) -> list[Seen]:
    """Every claim, in the order of the paper's figures."""
    found = []
    for claim in CLAIMS:
        try:
            found.append(Seen(claim.text, claim.measure, claim.compute(experiment)))
        except Missing as missing:
            found.append(Seen(claim.text, claim.measure, None, str(missing)))
    return found


def held_out(experiment: Experiment, better: str, worse: str) -> PairedDifference:
    """Fast@1.2 at the last turn on held-out tasks, ``better`` minus ``worse``."""
    left, right = _fast(experiment, worse, better)
    return paired_difference(left, right)


def _fast(experiment: Experiment, *arms: str) -> list[Floats]:
    """[P, K] of each arm at its last turn on the tasks that all share; K runs over seeds, too."""
    runs = {arm: experiment.measured(arm) for arm in arms}
    missing = [arm for arm, found in runs.items() if not found]
    if missing:
        raise Missing(f"no held-out evaluation of: {', '.join(missing)}")
    names = shared_tasks([run for found in runs.values() for run in found])
    if not names:
        raise Missing("the evaluations share no task")
    tables = []
    for found in runs.values():
        arrays = [run.arrays().of(names) for run in found]
        if not all(one.timed for one in arrays):
            raise Missing("nothing was timed")
        tables.append(np.concatenate([fast_samples(one.speedups, P) for one in arrays], axis=1))
    return tables


def in_training(experiment: Experiment, metric: str, more: str, less: str) -> PairedDifference:
    """A training metric over the last third of the steps, ``more`` minus ``less``."""
    values = []
    for arm in (less, more):
        found = late(curve_of(experiment.of(arm), metric))
        if not found:
            raise Missing(f"no {metric} of: {arm}")
        values.append(found)
    steps = sorted(set(values[0]) & set(values[1]))
    if len(steps) < 2:
        raise Missing("the arms share fewer than two of their last steps")
    left, right = ([[found[step]] for step in steps] for found in values)
    return paired_difference(left, right)


def later_turns(experiment: Experiment) -> PairedDifference:
    """Fast@1.2 of the full method on held-out tasks, last turn minus first."""
    runs = experiment.measured(FULL)
    if not runs:
        raise Missing(f"no held-out evaluation of: {FULL}")
    names = shared_tasks(runs)
    arrays = [run.arrays().of(names) for run in runs]
    if not all(one.timed for one in arrays):
        raise Missing("nothing was timed")
    first, last = (
        np.concatenate([fast_samples(one.speedups, P, turn=turn) for one in arrays], axis=1)
        for turn in (0, arrays[0].turns - 1)
    )
    return paired_difference(first, last)


def more_turns(experiment: Experiment) -> PairedDifference:
    """Best so far of the full method with memory, last turn minus the third."""
    for one in experiment.scalings:
        if one.arm == FULL and (log := log_of(one.path, "top")).exists():
            tables = _best_of(log)
            if tables is not None:
                return paired_difference(*tables)
    raise Missing(f"no timed scaling run with the arm top of: {FULL}")


def _best_of(log: Path, early: int = 3) -> tuple[Floats, Floats] | None:
    """[P, K] of whether a sequence had a fast kernel by turn ``early``, and by its end."""
    episodes = read_episodes(log)
    by_task: dict[str, list[list[bool]]] = {}
    timed = False
    for episode in episodes:
        fast = [(turn.speedup or 0.0) >= P and turn.correct for turn in episode.turns]
        timed = timed or any(turn.speedup is not None for turn in episode.turns)
        by_task.setdefault(episode.task, []).append(fast)
    if not timed:
        return None
    samples = min(len(rows) for rows in by_task.values())
    first, last = (
        np.array([[float(any(fast[:cut])) for fast in rows[:samples]] for rows in by_task.values()])
        for cut in (early, None)
    )
    return first, last


def _held(better: str, worse: str) -> tuple[str, Callable[[Experiment], PairedDifference]]:
    measure = f"held-out Fast@{P} at the last turn: {better} minus {worse}"
    return measure, lambda experiment: held_out(experiment, better, worse)


def _late(
    metric: str, more: str, less: str, name: str
) -> tuple[str, Callable[[Experiment], PairedDifference]]:
    measure = f"{name}, last third of the steps: {more} minus {less}"
    return measure, lambda experiment: in_training(experiment, metric, more, less)


def _claims(
    *given: tuple[str, tuple[str, Callable[[Experiment], PairedDifference]]],
) -> Sequence[_Claim]:
    return [_Claim(text, measure, compute) for text, (measure, compute) in given]


CLAIMS = _claims(
    (
        "Without the hack check a policy learns to hack (figures 2, 8)",
        _late("hack/ratio", UNCHECKED, TRLOO, "hack ratio"),
    ),
    (
        "What it gains there is not speed (figure 2)",
        _held(TRLOO, UNCHECKED),
    ),
    ("TRLOO is better than GRPO (figure 4)", _held(TRLOO, GRPO)),
    (
        "Later turns are better than the first (figure 4)",
        (f"held-out Fast@{P}: {FULL}, last turn minus first", later_turns),
    ),
    (
        "MRS keeps sampler and trainer together (figure 7)",
        _late("policy/logp_gap_abs_mean", TRLOO, MRS, "mean gap of log-probabilities"),
    ),
    (
        "MRS keeps gradients small (figure 7)",
        _late("optimizer/grad_norm", TRLOO, MRS, "gradient norm"),
    ),
    ("PR makes faster kernels (figure 5)", _held(PR, MRS)),
    ("PRS makes faster kernels still (figure 5)", _held(FULL, PR)),
    (
        "PR and PRS make lazy kernels fewer (figure 5)",
        _late("coverage_mean/turn_3", FULL, MRS, "coverage of correct kernels at turn 3"),
    ),
    ("The full method is better than its cold start", _held(FULL, COLD_START)),
    (
        "More turns at test time make faster kernels (figure 6)",
        (f"Fast@{P}, best so far with memory: {FULL}, last turn minus the third", more_turns),
    ),
)
