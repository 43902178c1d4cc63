"""The frame of a token loss: masks, planned rows, averages, and the KL and entropy terms.

A filter removes rows from the sum, never from the denominator: see :func:`planned_denominator`.

Shapes: R = rows (one row a turn), L = tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from drkernel.algo.arrays import Array, ArrayLike, TokenSpace, token_space

AGGREGATES = ("token_mean", "seq_mean_token_mean", "seq_mean_token_sum")
KL_ESTIMATORS = ("k1", "k2", "k3")
# exp(60) is finite in float32; a ratio beyond it is clipped by any sane setting, and inf * 0 in its
# gradient is not
LARGEST_LOG_RATIO = 60.0


@dataclass(frozen=True)
class TokenBatch:
    """Inputs of a loss in one library, dtype and device."""

    space: TokenSpace
    dtype: Any
    planned_RL: Array
    """The mask as given: the tokens the update was planned for."""
    kept_RL: Array
    """The planned tokens of the rows that survived the filters."""
    kept_tokens: Array
    """How many these are, counted once."""

    def tokens(self, values: ArrayLike, name: str) -> Array:
        """``values[R, L]`` with everything outside ``kept_RL`` replaced by 0, gradient included."""
        values_RL = self.space.table(self.space.floats(values, self.dtype))
        if values_RL.shape != self.planned_RL.shape:
            shape = f"[R, L] = {list(self.planned_RL.shape)}"
            raise ValueError(f"{name} must have shape {shape}, not {list(values_RL.shape)}")
        return self.space.xp.where(self.kept_RL, values_RL, 0.0)

    def per_row(self, values: ArrayLike, name: str) -> Array:
        """``values[R]`` (or [R, L]) spread over the kept tokens."""
        values_R = self.space.floats(values, self.dtype)
        if values_R.shape == self.planned_RL.shape[:1]:
            values_R = values_R[:, None]
        elif values_R.shape != self.planned_RL.shape:
            shape = f"[R] = [{self.planned_RL.shape[0]}]"
            raise ValueError(f"{name} must have shape {shape}, not {list(values_R.shape)}")
        return self.space.xp.where(self.kept_RL, values_R, 0.0)

    def constant(self, values: Array) -> Array:
        """``values`` without their gradient."""
        return values if self.space.device is None else values.detach()

    def mean(self, values_RL: Array) -> Array:
        """Plain mean over the kept tokens, 0 without any. A constant: for metrics."""
        total = self.space.xp.where(self.kept_RL, self.constant(values_RL), 0.0).sum()
        return total / self._divisor

    def share(self, flags_RL: Array) -> Array:
        """Share of the kept tokens where ``flags_RL`` is true."""
        return (flags_RL & self.kept_RL).sum() / self._divisor

    @property
    def _divisor(self) -> Array:
        return self.space.xp.clip(self.kept_tokens, 1, None)


def token_batch(
    logp: ArrayLike, mask: ArrayLike, keep: ArrayLike, *others: ArrayLike
) -> TokenBatch:
    """The frame of a loss: library, dtype, planned tokens, and those of kept rows."""
    space = token_space(logp, mask, *others)
    planned_RL = space.table(space.bools(mask))
    if planned_RL.ndim != 2:
        raise ValueError(f"mask must be two-dimensional [R, L], not {list(planned_RL.shape)}")
    kept_RL = planned_RL
    if keep is not None:
        keep_R = space.bools(keep)
        if keep_R.shape != planned_RL.shape[:1]:
            raise ValueError(
                f"keep must have shape [R] = [{planned_RL.shape[0]}], not {list(keep_R.shape)}"
            )
        kept_RL = planned_RL & keep_R[:, None]
    return TokenBatch(space, space.at_least_single(logp), planned_RL, kept_RL, kept_RL.sum())


def planned_denominator(mask: ArrayLike, aggregate: str) -> float:
    """The divisor of a sum of losses: planned tokens for "token_mean", else planned rows R.

    Rows count whether or not a filter dropped them, so a filter changes what is summed and not the
    scale: the same denominator in every arm of a comparison.
    """
    if aggregate not in AGGREGATES:
        raise ValueError(f"aggregate must be one of {AGGREGATES}, not {aggregate!r}")
    space = token_space(mask)
    planned_RL = space.table(space.bools(mask))
    return float(planned_RL.sum()) if aggregate == "token_mean" else float(planned_RL.shape[0])


def _aggregate(batch: TokenBatch, losses_RL: Array, aggregate: str, denominator: float) -> Array:
    losses_RL = batch.space.xp.where(batch.kept_RL, losses_RL, 0.0)
    if aggregate != "seq_mean_token_mean":
        return losses_RL.sum() / denominator
    lengths_R = batch.space.xp.clip(batch.planned_RL.sum(-1), 1, None)
    return (losses_RL.sum(-1) / lengths_R).sum() / denominator


def _denominator(batch: TokenBatch, aggregate: str, denominator: float | None) -> float:
    planned = planned_denominator(batch.planned_RL, aggregate)
    if denominator is None:
        return max(planned, 1.0)
    if not denominator > 0:
        raise ValueError(f"denominator must be positive, not {denominator}")
    return float(denominator)


def kl_tokens(logp: Array, logp_ref: Array, estimator: str = "k3") -> Array:
    """Per-token estimate of KL(pi || pi_ref) from tokens sampled by pi, d = logp - logp_ref.

    k1 = d (unbiased, can be negative), k2 = d^2/2, k3 = exp(-d) - 1 + d (unbiased, never negative).
    """
    difference = logp - logp_ref
    if estimator == "k1":
        return difference
    if estimator == "k2":
        return difference**2 / 2
    if estimator == "k3":
        xp = token_space(logp).xp
        return xp.exp(xp.clip(-difference, None, LARGEST_LOG_RATIO)) - 1 + difference
    raise ValueError(f"kl_estimator must be one of {KL_ESTIMATORS}, not {estimator!r}")


@dataclass(frozen=True)
class Regularisers:
    """The optional terms that every policy loss shares."""

    logp_ref: ArrayLike = None
    """[R, L] log-probabilities under the reference policy."""
    kl_coef: float = 0.0
    kl_estimator: str = "k3"
    entropy: ArrayLike = None
    """[R, L] entropy of the policy at each token, from its logits."""
    entropy_coef: float = 0.0

    def add(
        self, batch: TokenBatch, logp_RL: Array, losses_RL: Array, measured: dict[str, Array]
    ) -> Array:
        """``losses_RL`` + kl_coef * KL - entropy_coef * entropy; adds to ``measured``."""
        if self.logp_ref is not None:
            kl_RL = kl_tokens(logp_RL, batch.tokens(self.logp_ref, "logp_ref"), self.kl_estimator)
            losses_RL = losses_RL + self.kl_coef * kl_RL
            measured["kl_to_reference"] = batch.mean(kl_RL)
        elif self.kl_coef:
            raise ValueError("kl_coef needs logp_ref[R, L]")
        if self.entropy is not None:
            entropy_RL = batch.tokens(self.entropy, "entropy")
            losses_RL = losses_RL - self.entropy_coef * entropy_RL
            measured["entropy"] = batch.mean(entropy_RL)
        elif self.entropy_coef:
            raise ValueError("entropy_coef needs entropy[R, L]")
        return losses_RL


def finish_loss(
    batch: TokenBatch,
    losses_RL: Array,
    aggregate: str,
    denominator: float | None,
    measured: dict[str, Array],
) -> tuple[Array, dict[str, float]]:
    """(the scalar loss, everything measured as Python floats)."""
    divisor = _denominator(batch, aggregate, denominator)
    loss = _aggregate(batch, losses_RL, aggregate, divisor)
    measured = {
        **measured,
        "loss": loss,
        "planned_tokens": batch.planned_RL.sum(),
        "trained_tokens": batch.kept_tokens,
        "trained_rows": batch.kept_RL.any(-1).sum(),
    }
    counts = {"planned_rows": float(batch.planned_RL.shape[0]), "denominator": divisor}
    return loss, {**_numbers(batch.space, measured), **counts}


def _numbers(space: TokenSpace, measured: dict[str, Array]) -> dict[str, float]:
    if space.device is None:
        return {name: float(value) for name, value in measured.items()}
    # stacked, so that an accelerator is waited for once and not once a number
    stacked = space.xp.stack([value.detach().to(space.xp.float64) for value in measured.values()])
    return dict(zip(measured, stacked.tolist(), strict=True))
