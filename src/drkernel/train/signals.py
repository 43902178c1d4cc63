"""What a step shows: everything one wants to see when a run goes wrong, as flat numbers.

Turns count from 1 in names, as in the paper's figures. What was not measured is left out or NaN
(null in the file), never 0. Rates are over all episodes: a turn that was not played is a failure.

Shapes: B = episodes, T = turns, R = rows.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

import numpy as np

from drkernel.algo import fast_at_p
from drkernel.algo.arrays import Bools, Floats
from drkernel.rollout.settings import RewardSettings
from drkernel.train.credit import Credit
from drkernel.train.learner import Scores
from drkernel.train.store import is_reused
from drkernel.train.trajectories import Rollouts
from drkernel.types import Turn

THRESHOLDS = (1.0, 1.2, 1.5, 2.0)
_COVERAGE_QUANTILES = (0.1, 0.5, 0.9)
LINE = {
    "reward": "reward/mean",
    "correct": "correct/last_turn",
    "fast@1.2": "fast@1.2/last_turn",
    "hacks": "hack/ratio",
    "kept": "filter/kept",
    "entropy": "policy/entropy",
    "|g|": "optimizer/grad_norm",
    "tokens": "length/answer_mean",
    "s": "time/step_s",
}
"""What the console shows of a step."""


def play_signals(rollouts: Rollouts, reward: RewardSettings) -> dict[str, float]:
    """How the episodes went: by turn, and over all."""
    found: dict[str, float] = {
        "episodes": float(len(rollouts.episodes)),
        "reward/mean": _mean(rollouts.rewards[rollouts.valid]),
        "hack/ratio": _hack_ratio(rollouts, slice(None)),
        "return/mean": _mean(rollouts.rewards.sum(axis=1)),
    }
    turns = rollouts.valid.shape[1]
    for t in range(turns):
        found |= {f"{name}/turn_{t + 1}": v for name, v in _turn(rollouts, reward, t).items()}
    last = _turn(rollouts, reward, turns - 1)
    found |= {f"{name}/last_turn": last[name] for name in ("correct", "fast@1", "fast@1.2")}
    honest = np.where(rollouts.hacked[:, None, :], 0.0, _speeds(rollouts))
    for p in (1.0, 1.2):  # what is left when no hack counts, paid or not
        found[f"fast@{p:g}/last_turn/honest"] = fast_at_p(honest, p, turn=turns - 1)
    found["correct/best"] = _mean(np.asarray(rollouts.correct.any(axis=1)))
    for p in THRESHOLDS:
        found[f"fast@{p:g}/best"] = fast_at_p(_speeds(rollouts), p, best_of=turns)
    return found | _outcomes(rollouts) | _lengths(rollouts)


def _turn(rollouts: Rollouts, reward: RewardSettings, t: int) -> dict[str, float]:
    valid, correct = rollouts.valid[:, t], rollouts.correct[:, t]
    rule = reward.built()
    speed = np.where(correct, np.nan_to_num(rollouts.speedup[:, t]), 0.0)
    coverage = rollouts.coverage[:, t][correct]
    found = {
        "reward": _mean(rollouts.rewards[:, t][valid]),
        "played": _mean(rollouts.played[:, t]),
        "valid": _mean(valid),
        "correct": _mean(correct),
        "hack": _hack_ratio(rollouts, slice(t, t + 1)),
        "reward_speedup": rule.weights[1] * _mean(np.minimum(speed, rule.cap)[valid]),
        "reward_correct": rule.weights[0] * _mean(correct[valid].astype(float)),
        "coverage_mean": _mean(coverage[~np.isnan(coverage)]),
        "coverage_known": _mean(~np.isnan(coverage)),
    }
    found["reward_credit"] = found["reward"] - found["reward_correct"] - found["reward_speedup"]
    for q in _COVERAGE_QUANTILES:
        found[f"coverage_p{q * 100:.0f}"] = _quantile(coverage[~np.isnan(coverage)], q)
    for p in THRESHOLDS:
        found[f"fast@{p:g}"] = fast_at_p(_speeds(rollouts), p, turn=t)
    return found


def _speeds(rollouts: Rollouts) -> Floats:
    """[B, 1, T] speedups, 0 where incorrect."""
    return np.where(rollouts.correct, np.nan_to_num(rollouts.speedup), 0.0)[:, None, :]


def _hack_ratio(rollouts: Rollouts, turns: slice) -> float:
    evaluated = [
        turn.result is not None for episode in rollouts.episodes for turn in episode.turns[turns]
    ]
    return float(rollouts.hacked[:, turns].sum()) / sum(evaluated) if any(evaluated) else math.nan


def _all_turns(rollouts: Rollouts) -> list[Turn]:
    return [turn for episode in rollouts.episodes for turn in episode.turns]


def _outcomes(rollouts: Rollouts) -> dict[str, float]:
    """Counts of outcomes, of turns without an evaluation, and of how episodes ended."""
    turns = _all_turns(rollouts)
    counts = Counter(
        turn.result.outcome.value if turn.result is not None else turn.status for turn in turns
    )
    ends = Counter(episode.stopped for episode in rollouts.episodes)
    results = [turn.result for turn in turns if turn.result is not None]
    return {
        **{f"outcome/{name}": float(count) for name, count in sorted(counts.items())},
        **{f"stopped/{name}": float(count) for name, count in sorted(ends.items())},
        "evaluations/used": float(len(results)),
        "evaluations/reused": float(sum(is_reused(result) for result in results)),
    }


def _lengths(rollouts: Rollouts) -> dict[str, float]:
    said = [turn.generation for turn in _all_turns(rollouts) if turn.generation.completion_tokens]
    answers = np.array([one.completion_tokens for one in said], dtype=float)
    prompts = np.array([one.prompt_tokens for one in said], dtype=float)
    cost = [one.cost_usd for one in said if one.cost_usd is not None]
    found = {
        "length/answer_mean": _mean(answers),
        "length/answer_p90": _quantile(answers, 0.9),
        "length/answer_max": _quantile(answers, 1.0),
        "length/prompt_mean": _mean(prompts),
        "length/prompt_max": _quantile(prompts, 1.0),
        "length/cut": _mean(np.array([one.finish == "length" for one in said])),
        "tokens/sampled": float(answers.sum()),
    }
    if cost:
        found["cost/usd"] = float(sum(cost))
    return found


def credit_signals(credit: Credit, rollouts: Rollouts) -> dict[str, float]:
    """Group sizes, filters, advantages, agreement of sampler and trainer."""
    found = {**credit.table.statistics.as_metrics(), **credit.filters.as_metrics()}
    for t in range(rollouts.valid.shape[1]):
        valid = rollouts.valid[:, t]
        found[f"filter/kept/turn_{t + 1}"] = _mean(credit.table.trained[:, t][valid])
    values = credit.advantages[credit.keep]
    found |= {
        "advantage/mean": _mean(values),
        "advantage/std": float(values.std()) if values.size else math.nan,
        "advantage/abs_max": _quantile(np.abs(values), 1.0),
        "advantage/zero": _mean(values == 0),
        "prs/tau": credit.tau,
        "mrs/would_keep": credit.mismatch.keep_rate,
        "mrs/veto": credit.mismatch.veto_rate,
    }
    for q, w in credit.mismatch.w_quantiles.items():
        found[f"mrs/w_p{q * 100:g}"] = w
    for number, (rows, longest, rate) in enumerate(credit.mismatch.keep_rate_by_length, start=1):
        found[f"mrs/length_bin_{number}/keep"] = rate
        found[f"mrs/length_bin_{number}/longest"] = float(longest)
        found[f"mrs/length_bin_{number}/rows"] = float(rows)
    return found


def policy_signals(rollouts: Rollouts, scores: Scores) -> dict[str, float]:
    """Entropy, perplexities of sampler and trainer, and their gap, over all answer tokens."""
    mask, sampled = rollouts.mask(), rollouts.logp_rollout()
    if not mask.any():
        return {}
    gap = (scores.logp - sampled)[mask]
    found = {
        "policy/entropy": _mean(scores.entropy[mask]),
        "policy/perplexity_rollout": math.exp(-_mean(sampled[mask])),
        "policy/perplexity_trainer": math.exp(-_mean(scores.logp[mask])),
        "policy/logp_gap_mean": _mean(gap),
        "policy/logp_gap_abs_mean": _mean(np.abs(gap)),
        "policy/logp_gap_abs_max": _quantile(np.abs(gap), 1.0),
        "policy/logp_gap_abs_p99": _quantile(np.abs(gap), 0.99),
    }
    turn_R = np.array(rollouts.places[1])
    for t in range(rollouts.valid.shape[1]):
        here = mask & (turn_R == t)[:, None]
        if here.any():
            found[f"policy/entropy/turn_{t + 1}"] = _mean(scores.entropy[here])
    return found


def time_signals(seconds: Mapping[str, float], rollouts: Rollouts) -> dict[str, float]:
    """Seconds of each stage, and what was done in them."""
    turns = _all_turns(rollouts)
    found = {f"time/{name}_s": spent for name, spent in seconds.items()}
    found["time/step_s"] = sum(seconds.values())
    for name in ("generate", "evaluate"):
        found[f"time/{name}_sum_s"] = sum(turn.seconds.get(name, 0.0) for turn in turns)
    playing = max(seconds.get("rollout", 0.0), 1e-9)
    evaluated = sum(turn.result is not None for turn in turns)
    found["speed/evaluations_per_s"] = evaluated / playing
    tokens = sum(turn.generation.completion_tokens for turn in turns)
    found["speed/sampled_tokens_per_s"] = tokens / playing
    trained = sum(row.row.tokens for row in rollouts.rows)
    learning = seconds.get("score", 0.0) + seconds.get("update", 0.0)
    found["speed/trained_tokens_per_s"] = trained / max(learning, 1e-9)
    return found


def _mean(values: Floats | Bools) -> float:
    return float(np.mean(values)) if values.size else math.nan


def _quantile(values: Floats, q: float) -> float:
    return float(np.quantile(values, q)) if values.size else math.nan
