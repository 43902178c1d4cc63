"""Figures shaped like the paper's. Each function returns the figure and the table that it shows.

Curves are means over the seeds of an arm, the band reaches from the lowest to the highest seed;
curves of rollouts are moving means (`drkernel.miniature.curves.WINDOW`), those of validations are
not. Figure 6 is that of a scaling run (`drkernel.report.scaling.arms_by_turn`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from drkernel.algo import clustered_interval, fast_samples
from drkernel.miniature.claims import P
from drkernel.miniature.curves import WINDOW, Curve, curve_of
from drkernel.miniature.runs import COLD_START, Experiment
from drkernel.report.style import COLOURS, MARKS, new_figure, new_panels
from drkernel.report.tables import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Drawn = tuple["Figure", Table]
_HEAD = ("arm", "metric", "step", "mean", "lowest seed", "highest seed")
_FAST = f"fast@{P:g}/last_turn"


def all_figures(experiment: Experiment) -> dict[str, Drawn]:
    """Every figure for which there is something to show, by file name."""
    makers: dict[str, Callable[[Experiment], Drawn | None]] = {
        "fig2_hack_tradeoff": hack_tradeoff,
        "fig4_methods": methods,
        "fig4_turns": turns,
        "fig5_fast_and_entropy": fast_and_entropy,
        "fig7_stability": stability,
        "fig8_hack_ratio": hack_ratio,
    }
    drawn = {name: make(experiment) for name, make in makers.items()}
    return {name: found for name, found in drawn.items() if found is not None}


def hack_tradeoff(experiment: Experiment) -> Drawn | None:
    """Figure 2: Fast@1 as paid, Fast@1.2 and what is left of both without hacks."""
    pairs = [
        (arm, metric)
        for arm in experiment.arms
        if arm.startswith("TRLOO") and ("hack check" in arm or arm == "TRLOO")
        for metric in ("fast@1/last_turn", "fast@1/last_turn/honest", f"{_FAST}/honest")
    ]
    title = "What is paid and what is real, by step (higher is better)"
    return _curves(experiment, title, "share of episodes, last turn", pairs)


def methods(experiment: Experiment) -> Drawn | None:
    """Figure 4, left: Fast@1.2 on validation by step, a line an arm."""
    pairs = [(arm, f"validation/{_FAST}") for arm in experiment.arms]
    title = f"Fast@{P:g} on validation tasks by step (higher is better)"
    return _curves(experiment, title, "share of episodes, last turn", pairs, window=1)


def turns(experiment: Experiment) -> Drawn | None:
    """Figure 4, right: Fast@1.2 on held-out tasks, a bar a turn, 95% intervals over tasks."""
    arms = [arm for arm in (COLD_START, *experiment.arms) if experiment.measured(arm)]
    rows: list[tuple[str, ...]] = []
    bars: list[tuple[int, int, float, float, float]] = []
    for place, arm in enumerate(arms):
        arrays = [run.arrays() for run in experiment.measured(arm)]
        if not all(one.timed for one in arrays):
            continue
        names = [name for name in arrays[0].tasks if all(name in one.tasks for one in arrays)]
        for turn in range(min(one.turns for one in arrays)):
            fast = np.concatenate(
                [fast_samples(one.of(names).speedups, P, turn=turn) for one in arrays], axis=1
            )
            low, high = clustered_interval(fast)
            bars.append((place, turn, float(fast.mean()), low, high))
            cells = (f"{value:.6g}" for value in (fast.mean(), low, high))
            rows.append((arm, str(turn + 1), *cells, str(fast.size)))
    if not bars:
        return None
    count = max(turn for _, turn, *_ in bars) + 1
    figure, axes = new_figure(
        f"Fast@{P:g} on held-out tasks by turn (higher is better)",
        "",
        "share of samples",
        note=_note(experiment),
    )
    for place, turn, value, low, high in bars:
        x = place + (turn - (count - 1) / 2) * 0.8 / count
        label = f"turn {turn + 1}" if place == bars[0][0] else None
        axes.bar(x, value, 0.8 / count, color=COLOURS[turn % len(COLOURS)], label=label)
        axes.vlines(x, low, high, color="#333333", linewidth=1)
    axes.set_xticks(range(len(arms)), arms, fontsize=6, rotation=15)
    axes.legend(fontsize=7)
    head = ("arm", "turn", f"Fast@{P:g}", "low", "high", "samples")
    return figure, Table("", head, tuple(rows))


def fast_and_entropy(experiment: Experiment) -> Drawn | None:
    """Figure 5: Fast@1.2 and entropy by step."""
    metrics = {f"Fast@{P:g}, last turn": _FAST, "entropy, nats a token": "policy/entropy"}
    return _panels(experiment, "Rollouts by step", metrics)


def stability(experiment: Experiment) -> Drawn | None:
    """Figure 7: entropy, gradient norm, perplexities of sampler and trainer, their gap."""
    metrics = {
        "entropy, nats a token": "policy/entropy",
        "gradient norm": "optimizer/grad_norm",
        "perplexity, sampler": "policy/perplexity_rollout",
        "perplexity, trainer": "policy/perplexity_trainer",
        "mean gap of log-probabilities": "policy/logp_gap_abs_mean",
        "share of rows kept": "filter/kept",
    }
    return _panels(experiment, "Stability by step", metrics)


def hack_ratio(experiment: Experiment) -> Drawn | None:
    """Figure 8: hacks of all that was judged, by step."""
    pairs = [(arm, "hack/ratio") for arm in experiment.arms]
    return _curves(experiment, "Hacks by step (lower is better)", "share of evaluations", pairs)


def _curves(
    experiment: Experiment,
    title: str,
    y: str,
    pairs: Sequence[tuple[str, str]],
    *,
    window: int = WINDOW,
) -> Drawn | None:
    """A line for each pair of arm and metric."""
    curves = [(arm, metric, curve_of(experiment.of(arm), metric)) for arm, metric in pairs]
    curves = [one for one in curves if one[2].is_known]
    if not curves:
        return None
    mean = f", moving mean of {window} steps" if window > 1 else ""
    figure, axes = new_figure(title, "step", y, note=_note(experiment) + mean)
    rows: list[tuple[str, ...]] = []
    metrics = list(dict.fromkeys(metric for _, metric, _ in curves))
    for arm, metric, curve in curves:
        label = arm if len(metrics) == 1 else f"{arm}: {metric.removesuffix('/last_turn')}"
        style = ("-", "--", ":")[metrics.index(metric) % 3]
        _line(axes, curve.smooth(window), _colour(experiment, arm), label, style)
        rows += _rows(arm, metric, curve)
    axes.legend(fontsize=6)
    return figure, Table("", _HEAD, tuple(rows))


def _panels(experiment: Experiment, title: str, metrics: dict[str, str]) -> Drawn | None:
    """One pair of axes a metric, a line an arm."""
    rows: list[tuple[str, ...]] = []
    note = f"{_note(experiment)}, moving mean of {WINDOW} steps"
    figure, grid = new_panels(title, "step", list(metrics), note=note)
    for axes, metric in zip(grid, metrics.values(), strict=True):
        for arm in experiment.arms:
            curve = curve_of(experiment.of(arm), metric)
            if curve.is_known:
                _line(axes, curve.smooth(), _colour(experiment, arm), arm, "-")
                rows += _rows(arm, metric, curve)
    if not rows:
        return None
    grid[0].legend(fontsize=6)
    return figure, Table("", _HEAD, tuple(rows))


def _line(axes: Axes, curve: Curve, colour: str, label: str, style: str) -> None:
    axes.plot(curve.steps_N, curve.mean_N(), style, color=colour, label=label, linewidth=1.2)
    if len(curve.values_SN) > 1:
        low, high = curve.band_N()
        axes.fill_between(curve.steps_N, low, high, color=colour, alpha=0.15, linewidth=0)
    elif len(curve.steps_N) < WINDOW:
        axes.plot(curve.steps_N, curve.mean_N(), MARKS[0], color=colour, markersize=3)


def _colour(experiment: Experiment, arm: str) -> str:
    return COLOURS[experiment.arms.index(arm) % len(COLOURS)]


def _rows(arm: str, metric: str, curve: Curve) -> list[tuple[str, ...]]:
    low, high = curve.band_N()
    return [
        (arm, metric, str(step), *(f"{value:.6g}" for value in values))
        for step, *values in zip(curve.steps_N, curve.mean_N(), low, high, strict=True)
        if np.isfinite(values[0])
    ]


def _note(experiment: Experiment) -> str:
    """What every figure says of itself: how many seeds each arm has, and on what."""
    counts = [f"{arm}: {len(experiment.of(arm))}" for arm in experiment.arms]
    devices = sorted({run.device for run in experiment.trained if run.device})
    return f"seeds: {', '.join(counts)}; {', '.join(devices) or 'nothing judged'}"
