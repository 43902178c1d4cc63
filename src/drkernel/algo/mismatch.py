"""Mismatch rejection sampling (MRS): drop rows that the sampler and the trainer disagree on.

The engine that samples and the engine that trains give the same token different probabilities. A
row is kept when the geometric mean of pi_train/pi_rollout over its tokens is close to 1 and no
single token is all but impossible for the trainer. Everything is decided in log space in float64:
at 1.001 the bounds are 1e-3 wide, less than one bfloat16 step.

Shapes: R = rows (one row a turn), L = tokens.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from drkernel.algo.arrays import Array, ArrayLike, Bools, Floats, Integers, kind_of, token_space
from drkernel.algo.groups import group_codes

LEVELS = ("turn", "trajectory")


@dataclass(frozen=True)
class LogRatios:
    """Per row, of the log-ratios log pi_train - log pi_rollout of its tokens."""

    tokens_R: Floats
    mean_R: Floats
    lowest_R: Floats
    highest_R: Floats

    def pooled(self, code_R: Integers) -> Floats:
        """The mean over all tokens of each row's trajectory, [R]; a row without tokens keeps 0."""
        tokens = np.maximum(np.bincount(code_R, weights=self.tokens_R), 1.0)

        def pool(values_R: Floats) -> Floats:
            sums = np.bincount(code_R, weights=self.tokens_R * values_R)
            return np.asarray((sums / tokens)[code_R])

        with np.errstate(invalid="ignore"):
            pooled_R = pool(self.mean_R)
            # a second pass, as in log_ratios: rows of one mean pool to exactly that mean
            error_R = pool(self.mean_R - pooled_R)
        pooled_R = np.where(np.isfinite(error_R), pooled_R + error_R, pooled_R)
        return np.where(self.tokens_R > 0, pooled_R, 0.0)


def log_ratios(logp_train: ArrayLike, logp_rollout: ArrayLike, mask: ArrayLike) -> LogRatios:
    """Count, mean, lowest and highest log-ratio of each row's tokens; 0 without any.

    Tokens outside the mask are never read. float32 and bfloat16 are widened before the subtraction.
    """
    space = token_space(logp_train, logp_rollout, mask)
    mask_RL = space.table(space.bools(mask))
    train_RL = space.table(space.constants(logp_train, space.xp.float64))
    rollout_RL = space.table(space.constants(logp_rollout, space.xp.float64))
    if not (mask_RL.ndim == 2 and train_RL.shape == rollout_RL.shape == mask_RL.shape):
        shapes = ", ".join(str(list(array.shape)) for array in (train_RL, rollout_RL, mask_RL))
        raise ValueError(
            f"logp_train, logp_rollout and mask must share one shape [R, L], not {shapes}"
        )
    if 0 in mask_RL.shape:
        nothing = np.zeros(mask_RL.shape[0])
        return LogRatios(nothing, nothing, nothing, nothing)
    xp = space.xp
    with np.errstate(invalid="ignore"):
        # zeroed before the subtraction, so that -inf in the padding cannot make a NaN
        ratios_RL = xp.where(mask_RL, train_RL, 0.0) - xp.where(mask_RL, rollout_RL, 0.0)
        tokens_R = mask_RL.sum(-1)
        count_R = xp.clip(tokens_R, 1, None)
        mean_R = ratios_RL.sum(-1) / count_R
        # a second pass removes the rounding of the first: a constant row has exactly its constant
        # as mean
        error_R = xp.where(mask_RL, ratios_RL - mean_R[:, None], 0.0).sum(-1) / count_R
    mean_R = xp.where(xp.isfinite(error_R), mean_R + error_R, mean_R)
    lowest_R, highest_R = xp.amin(ratios_RL, -1), xp.amax(ratios_RL, -1)
    return LogRatios(*(_host(values) for values in (tokens_R, mean_R, lowest_R, highest_R)))


def _host(values: Array) -> Floats:
    array = values.detach().cpu().numpy() if hasattr(values, "detach") else values
    return np.asarray(array, dtype=np.float64)


def _log(bound: float | None, default: float) -> float:
    """log of a ratio bound; ``default`` when the bound is off."""
    return default if bound is None or bound <= 0 else math.log(bound)


def _log_w(ratios: LogRatios, level: str, trajectory: ArrayLike) -> Floats:
    if level == "turn":
        return ratios.mean_R
    if level != "trajectory":
        raise ValueError(f"level must be one of {LEVELS}, not {level!r}")
    if trajectory is None:
        raise ValueError(
            "level 'trajectory' needs trajectory[R], the trajectory each row belongs to"
        )
    return ratios.pooled(group_codes(trajectory, ratios.tokens_R.size))


def _vetoed(ratios: LogRatios, veto: float | None, veto_high: float | None) -> Bools:
    return (ratios.lowest_R < _log(veto, -math.inf)) | (
        ratios.highest_R > _log(veto_high, math.inf)
    )


def mismatch_keep(
    logp_train: ArrayLike,
    logp_rollout: ArrayLike,
    mask: ArrayLike,
    *,
    low: float = 0.999,
    high: float = 1.001,
    veto: float | None = 1e-4,
    veto_high: float | None = None,
    level: str = "turn",
    trajectory: ArrayLike = None,
) -> tuple[Array, Array]:
    """(keep[R] bool, w[R] float64): the paper's MRS with its token veto.

    w = exp(masked mean of logp_train - logp_rollout). A row is kept iff low <= w <= high, no token
    has pi_train/pi_rollout < ``veto`` and, when given, none has > ``veto_high``. ``None`` turns a
    veto off.

    Args:
        logp_train: [R, L] log-probabilities under the trained weights. Constants: no gradient
            flows.
        logp_rollout: [R, L] log-probabilities when sampled.
        mask: [R, L], nonzero at the sampled tokens. A row without tokens has w = 1 and is kept.
        low, high: bounds of w, compared as logarithms.
        veto, veto_high: bounds of a single token's ratio; a veto drops its own row only.
        level: "turn" judges each row by itself; "trajectory" pools w over the tokens of all rows of
            a trajectory, as the released code does.
        trajectory: [R] labels, for level "trajectory".

    >>> train, rollout = [[-1.0, -2.0], [-1.0, -1.9]], [[-1.0, -2.0], [-1.0, -2.0]]
    >>> keep, w = mismatch_keep(train, rollout, [[1, 1], [1, 1]])
    >>> keep.tolist(), w.round(4).tolist()
    ([True, False], [1.0, 1.0513])
    """
    ratios = log_ratios(logp_train, logp_rollout, mask)
    log_w_R = _log_w(ratios, level, trajectory)
    keep_R = (log_w_R >= _log(low, -math.inf)) & (log_w_R <= _log(high, math.inf))
    keep_R &= ~_vetoed(ratios, veto, veto_high)
    kind = kind_of(logp_train, logp_rollout, mask)
    with np.errstate(over="ignore"):
        return kind.exact(keep_R), kind.exact(np.exp(log_w_R))


@dataclass(frozen=True)
class MismatchReport:
    """What MRS saw, to log: fixed bounds treat long and short rows very differently."""

    rows: int
    keep_rate: float
    veto_rate: float
    w_quantiles: dict[float, float]
    keep_rate_by_length: tuple[tuple[int, int, float], ...]
    """(rows, longest row in tokens, keep rate) for each bin of rows, shortest first."""


def mismatch_report(
    logp_train: ArrayLike,
    logp_rollout: ArrayLike,
    mask: ArrayLike,
    *,
    quantiles: Sequence[float] = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99),
    bins: int = 4,
    veto: float | None = 1e-4,
    veto_high: float | None = None,
    level: str = "turn",
    trajectory: ArrayLike = None,
    low: float = 0.999,
    high: float = 1.001,
) -> MismatchReport:
    """Quantiles of w, veto rate, and keep rate by row length in ``bins`` bins of equally many rows.

    Takes the arguments of :func:`mismatch_keep`. Rows without tokens are left out.

    >>> train, rollout = [[0.0, 0.0], [0.0, 0.5]], [[0.0, 0.0], [0.0, 0.0]]
    >>> report = mismatch_report(train, rollout, [[1, 0], [1, 1]])
    >>> report.keep_rate, report.keep_rate_by_length
    (0.5, ((1, 1, 1.0), (1, 2, 0.0)))
    """
    ratios = log_ratios(logp_train, logp_rollout, mask)
    real_R = ratios.tokens_R > 0
    log_w_R = _log_w(ratios, level, trajectory)[real_R]
    vetoed_R = _vetoed(ratios, veto, veto_high)[real_R]
    keep_R = (log_w_R >= _log(low, -math.inf)) & (log_w_R <= _log(high, math.inf)) & ~vetoed_R
    tokens_R = ratios.tokens_R[real_R]
    by_length = np.argsort(tokens_R, kind="stable")
    chunks = [chunk for chunk in np.array_split(by_length, bins) if chunk.size]
    return MismatchReport(
        rows=int(real_R.sum()),
        keep_rate=float(keep_R.mean()) if keep_R.size else math.nan,
        veto_rate=float(vetoed_R.mean()) if keep_R.size else math.nan,
        w_quantiles={
            q: float(np.exp(np.quantile(log_w_R, q))) if keep_R.size else math.nan
            for q in quantiles
        },
        keep_rate_by_length=tuple(
            (int(chunk.size), int(tokens_R[chunk].max()), float(keep_R[chunk].mean()))
            for chunk in chunks
        ),
    )
