"""Policy losses over tokens: clipped PPO with a dual clip, and REINFORCE.

All losses are minimised. They run where their inputs live, in numpy or torch; with torch they
backpropagate through ``logp`` (and through ``entropy``). Tokens outside the mask, and rows that a
filter dropped, are never read, not even by the backward pass. float32, float16 and bfloat16 inputs
are computed, and the loss returned, in float32; float64, integers and lists in float64.

Shapes: R = rows (one row a turn), L = tokens.
"""

from __future__ import annotations

from typing import Any

from drkernel.algo.arrays import Array, ArrayLike
from drkernel.algo.token_batch import (
    LARGEST_LOG_RATIO,
    Regularisers,
    TokenBatch,
    finish_loss,
    token_batch,
)


def policy_loss(
    logp: ArrayLike,
    logp_old: ArrayLike,
    advantages: ArrayLike,
    mask: ArrayLike,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.28,
    clip_dual: float | None = 3.0,
    aggregate: str = "seq_mean_token_sum",
    denominator: float | None = None,
    keep: ArrayLike = None,
    **regularisers: Any,
) -> tuple[Array, dict[str, float]]:
    """(loss, metrics): token-level PPO with asymmetric clip and dual clip.

    ratio = exp(logp - logp_old); l = max(-A*ratio, -A*clip(ratio, 1 - clip_low, 1 + clip_high)),
    and l = min(l, -A*clip_dual) where A < 0, with A the row's advantage.

    Args:
        logp: [R, L] under the weights being trained; gradients flow through it.
        logp_old: [R, L] under the weights that sampled; ``None`` is ``logp`` itself, ratio 1.
        advantages: [R] (or [R, L]), constants.
        mask: [R, L], nonzero at the tokens planned for training.
        clip_low, clip_high: the clip range 1 - clip_low .. 1 + clip_high.
        clip_dual: most that a token of negative advantage may weigh; ``None`` is off.
        aggregate: "token_mean", "seq_mean_token_mean", "seq_mean_token_sum" (the paper's).
        denominator: divisor of the sum. By default all R rows ("token_mean": all tokens of
            ``mask``), also those that ``keep`` or an empty mask takes out: a filter must not change
            the scale of the step.
        keep: [R], false drops the row from the sum only.
        **regularisers: kl_coef with logp_ref[R, L] and kl_estimator ("k1", "k2", "k3");
            entropy_coef with entropy[R, L].

    >>> loss, metrics = policy_loss([[0.0, 0.0], [0.0, 0.0]], None, [1.0, -0.5], [[1, 1], [1, 0]])
    >>> float(loss), metrics["planned_rows"]
    (-0.75, 2.0)
    """
    batch, logp_RL, old_RL, advantages_RL = _inputs(logp, logp_old, advantages, mask, keep)
    _check_clips(clip_low, clip_high, clip_dual)
    xp = batch.space.xp
    log_ratio_RL = logp_RL - old_RL
    ratio_RL = xp.exp(xp.clip(log_ratio_RL, None, LARGEST_LOG_RATIO))
    clipped_RL = xp.clip(ratio_RL, 1 - clip_low, 1 + clip_high)
    losses_RL = xp.maximum(-advantages_RL * ratio_RL, -advantages_RL * clipped_RL)
    if clip_dual is not None:
        ceiling_RL = xp.minimum(losses_RL, -advantages_RL * clip_dual)
        losses_RL = xp.where(advantages_RL < 0, ceiling_RL, losses_RL)
    gain_RL, cost_RL = advantages_RL > 0, advantages_RL < 0
    measured = {
        "clip_fraction_high": batch.share(gain_RL & (ratio_RL > 1 + clip_high)),
        "clip_fraction_low": batch.share(cost_RL & (ratio_RL < 1 - clip_low)),
        "clip_fraction_dual": batch.share(cost_RL & (ratio_RL > (clip_dual or float("inf")))),
        "ratio_mean": batch.mean(ratio_RL),
        "kl_to_old": batch.mean(-log_ratio_RL),
    }
    losses_RL = Regularisers(**regularisers).add(batch, logp_RL, losses_RL, measured)
    return finish_loss(batch, losses_RL, aggregate, denominator, measured)


def reinforce_loss(
    logp: ArrayLike,
    advantages: ArrayLike,
    mask: ArrayLike,
    *,
    aggregate: str = "seq_mean_token_sum",
    denominator: float | None = None,
    keep: ArrayLike = None,
    **regularisers: Any,
) -> tuple[Array, dict[str, float]]:
    """(loss, metrics): l = -A * logp a token, the plain policy gradient.

    Its gradient is that of :func:`policy_loss` at ratio 1. Arguments as there.

    >>> float(reinforce_loss([[-1.0, -2.0]], [2.0], [[1, 1]])[0])
    6.0
    """
    batch, logp_RL, _, advantages_RL = _inputs(logp, None, advantages, mask, keep)
    measured: dict[str, Array] = {"logp_mean": batch.mean(logp_RL)}
    losses_RL = Regularisers(**regularisers).add(batch, logp_RL, -advantages_RL * logp_RL, measured)
    return finish_loss(batch, losses_RL, aggregate, denominator, measured)


def _inputs(
    logp: ArrayLike, logp_old: ArrayLike, advantages: ArrayLike, mask: ArrayLike, keep: ArrayLike
) -> tuple[TokenBatch, Array, Array, Array]:
    """(frame, logp [R, L], old logp [R, L], advantages [R, L]), the last two without gradient."""
    batch = token_batch(logp, mask, keep, logp_old, advantages)
    logp_RL = batch.tokens(logp, "logp")
    old_RL = batch.constant(logp_RL if logp_old is None else batch.tokens(logp_old, "logp_old"))
    return batch, logp_RL, old_RL, batch.constant(batch.per_row(advantages, "advantages"))


def _check_clips(clip_low: float, clip_high: float, clip_dual: float | None) -> None:
    if clip_low < 0 or clip_high < 0:
        raise ValueError(
            f"clip_low and clip_high must be at least 0, not {clip_low} and {clip_high}"
        )
    if clip_dual is not None and clip_dual <= 1:
        raise ValueError(f"clip_dual must be above 1, not {clip_dual}")
