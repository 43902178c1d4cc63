"""From episodes by arm to the numbers of a scaling run."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from drkernel.algo import clustered_interval, fast_samples
from drkernel.collect.selection import best_turn
from drkernel.evaluate.arrays import Arrays, arrays_of
from drkernel.evaluate.metrics import cost_of, rows_of
from drkernel.evaluate.rejudge import Verdicts
from drkernel.report.rows import Row
from drkernel.scale.budgets import by_evaluations, by_tokens, good_table, token_budgets
from drkernel.scale.choosing import AGREE, chosen_turns, closed_gap
from drkernel.scale.gains import gains_of
from drkernel.scale.settings import ScaleSettings
from drkernel.scale.summary import Choice, ScaleSummary
from drkernel.types import Episode, Turn

GOOD = 1.2
"""Speedup that budgets and choices count as good."""


def summarise(
    settings: ScaleSettings,
    arms: Mapping[str, Sequence[Episode]],
    verdicts: Mapping[str, Verdicts],
    tasks: Sequence[str],
    digest: str,
) -> ScaleSummary:
    """All numbers."""
    laid = {
        arm: arrays_of(episodes, tasks, samples=settings.samples, turns=settings.turns)
        for arm, episodes in arms.items()
    }
    timed = any(arrays.timed for arrays in laid.values())
    rows: list[Row] = []
    for arm, arrays in laid.items():
        found = rows_of(arrays, {}, settings.thresholds)
        if settings.verify:
            found += _verified(arrays, verdicts[arm], settings.thresholds, timed=timed)
        rows += [row.model_copy(update={"run": arm}) for row in found]
    budgets = token_budgets(list(laid.values()))
    curves = [by_evaluations(arm, arrays, GOOD) for arm, arrays in laid.items()]
    if budgets:
        curves += [by_tokens(arm, arrays, GOOD, budgets) for arm, arrays in laid.items()]
    episodes = [episode for listed in arms.values() for episode in listed]
    policy = episodes[0].policy if episodes else settings.policy.name
    return ScaleSummary(
        policy=policy,
        scripted=policy.startswith(("teacher", "scripted")),
        digest=digest,
        devices=_devices(episodes),
        tasks=len(tasks),
        samples=settings.samples,
        turns=settings.turns,
        timed=timed,
        unfinished=sum(arrays.unfinished for arrays in laid.values()),
        good=f"fast@{GOOD:g}" if timed else "correct",
        rows=tuple(rows),
        curves=tuple(dataclasses.asdict(curve) for curve in curves),
        gains={
            arm: [dataclasses.asdict(gain) for gain in gains_of(arrays)]
            for arm, arrays in laid.items()
            if arm != "parallel"
        },
        choices=tuple(_choices(settings, laid, arms, verdicts)),
        compared=sum(
            purpose.startswith(AGREE) for known in verdicts.values() for *_, purpose in known
        ),
        costs={
            arm: {**cost_of(arrays), "further_evaluations": len(verdicts[arm])}
            for arm, arrays in laid.items()
        },
    )


def _devices(episodes: Sequence[Episode]) -> tuple[str, ...]:
    results = [turn.result for episode in episodes for turn in episode.turns]
    return tuple(sorted({result.provenance.device for result in results if result is not None}))


def _verified(
    arrays: Arrays, verdicts: Verdicts, thresholds: Sequence[float], *, timed: bool
) -> list[Row]:
    """The winner's second verdict counts, whatever the first one was; no winner is a failure."""
    speedups = np.zeros((len(arrays.tasks), arrays.samples, 1))
    correct = np.zeros_like(speedups)
    for p, row in enumerate(arrays.episodes):
        for k, episode in enumerate(row):
            best = best_turn(episode) if episode is not None else None
            if episode is None or best is None:
                continue
            again = verdicts.get((episode.id, best.index, "verify"))
            if again is not None and again.correct:
                correct[p, k, 0] = 1.0
                speedups[p, k, 0] = again.speedup or 0.0
    tables = {"correct": fast_samples(correct, 0.0)}
    if timed:
        tables |= {f"fast@{p:g}": fast_samples(speedups, p) for p in thresholds}
    rows = []
    for metric, table in tables.items():
        low, high = clustered_interval(table)
        rows.append(
            Row(
                metric=metric,
                group="all",
                turn="verified",
                value=float(np.mean(table)),
                low=low,
                high=high,
                problems=len(arrays.tasks),
                samples=len(arrays.tasks) * arrays.samples,
            )
        )
    return rows


def _choices(
    settings: ScaleSettings,
    laid: Mapping[str, Arrays],
    arms: Mapping[str, Sequence[Episode]],
    verdicts: Mapping[str, Verdicts],
) -> list[Choice]:
    arm = settings.choosing.arm
    if not settings.choosing.enabled or arm not in arms:
        return []
    arrays = laid[arm]
    good = good_table(arrays, GOOD)
    best = float(good.max(axis=2).mean())
    place = {name: p for p, name in enumerate(arrays.tasks)}
    picks = chosen_turns(arms[arm], verdicts[arm], settings.choosing.hubs)

    def share(turns: Sequence[Turn | None]) -> float:
        values = [
            0.0 if turn is None else float(good[place[episode.task], episode.sample, turn.index])
            for episode, turn in zip(arms[arm], turns, strict=True)
        ]
        return float(np.mean(values)) if values else 0.0

    last = share(picks["last"])
    found = [
        Choice(rule=rule, value=share(turns), closed=closed_gap(share(turns), last, best))
        for rule, turns in picks.items()
    ]
    return [*found, Choice(rule="best (oracle)", value=best, closed=closed_gap(best, last, best))]
