"""The model that learns: scores rows, takes optimizer steps.

Scores before the update are the old log-probabilities: the trainer's own, whatever the sampler
said. Rows that were dropped, or whose advantage is 0, are not computed in the update; they stay in
the denominator, so that a filter does not change the scale of a step.

Shapes: R = rows, L = tokens of the longest answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from drkernel.algo import planned_denominator, policy_loss
from drkernel.algo.arrays import Bools, Floats
from drkernel.train.batches import group_rows, make_batch
from drkernel.train.forward import score_tokens
from drkernel.train.models import Loaded
from drkernel.train.optimizer import Optimizer, StepReport
from drkernel.train.rows import Row
from drkernel.train.settings import TrainSettings

_ORDER_STREAM = 11


@dataclass(frozen=True)
class Scores:
    """What the trainer says about the answers, without gradient."""

    logp: Floats
    """[R, L], 0 behind each answer."""
    entropy: Floats
    """[R, L], 0 behind each answer."""


@dataclass(frozen=True)
class Update:
    """What an update did."""

    steps: tuple[StepReport, ...]
    """Optimizer steps; none when nothing was left to train on."""
    metrics: dict[str, float]
    """Loss, clip fractions, ratio, as means over the trained tokens."""


class Learner:
    """A model with its optimizer."""

    def __init__(self, loaded: Loaded, settings: TrainSettings) -> None:
        self.loaded, self.settings = loaded, settings
        steps = settings.steps * settings.loss.minibatches
        self.optimizer = Optimizer(loaded.model, settings.optimizer, steps)

    def score(self, rows: Sequence[Row]) -> Scores:
        """Log-probabilities and entropies of all answers."""
        width = max((row.targets for row in rows), default=0)
        logp, entropy = np.zeros((len(rows), width)), np.zeros((len(rows), width))
        with torch.no_grad():
            for group in self._groups(rows):
                batch = make_batch([rows[i] for i in group], self.settings.layout)
                scores = self._scores(batch)
                batch = batch.to(scores.logp_N.device)
                for table, values in ((logp, scores.logp_N), (entropy, scores.entropy_N)):
                    table[group] = batch.to_rows(values.double(), width).cpu().numpy()
        return Scores(logp, entropy)

    def update(
        self,
        rows: Sequence[Row],
        advantages: Floats,
        keep: Bools,
        logp_old: Floats,
        *,
        step: int,
    ) -> Update:
        """Optimizer steps over the rows that were kept."""
        loss = self.settings.loss
        order = np.arange(len(rows))
        if loss.minibatches > 1:
            seed = [self.settings.seed, step, _ORDER_STREAM]
            order = np.random.default_rng(seed).permutation(len(rows))
        reports: list[StepReport] = []
        totals: Counter[str] = Counter()
        for part in np.array_split(order, loss.minibatches):
            learns = keep & ((advantages != 0) | (loss.entropy_coef != 0))
            chosen = [int(i) for i in part if learns[i]]
            if not chosen:
                continue
            mask = _mask([rows[i] for i in part])
            scale = planned_denominator(mask, loss.aggregate) * loss.token_scale
            for group in self._groups([rows[i] for i in chosen]):
                numbers = [chosen[i] for i in group]
                totals.update(
                    self._accumulate(
                        [rows[i] for i in numbers], advantages[numbers], logp_old[numbers], scale
                    )
                )
            reports.append(self.optimizer.step())
        return Update(tuple(reports), _means(totals))

    def _groups(self, rows: Sequence[Row]) -> list[list[int]]:
        lengths = [row.tokens for row in rows]
        most = max(self.settings.micro_tokens, max(lengths, default=0))
        cost = self.settings.pass_cost_tokens
        return group_rows(lengths, most, self.settings.layout, pass_cost_tokens=cost)

    def _scores(self, batch: Any) -> Any:
        return score_tokens(
            self.loaded.model,
            batch,
            compute=self.settings.model.compute,
            temperature=self.settings.episode.sampling.temperature,
        )

    def _accumulate(
        self, rows: Sequence[Row], advantages: Floats, logp_old: Floats, denominator: float
    ) -> dict[str, float]:
        """Add the gradient of some rows; what was measured, times their tokens."""
        batch = make_batch(rows, self.settings.layout)
        scores = self._scores(batch)
        device = scores.logp_N.device
        batch, rule = batch.to(device), self.settings.loss
        logp_RL = batch.to_rows(scores.logp_N)
        mask_RL = batch.to_rows(torch.ones_like(scores.logp_N.detach())) > 0
        width = logp_RL.shape[1]
        extra = {}
        if rule.entropy_coef:
            entropy = batch.to_rows(scores.entropy_N)
            extra = {"entropy": entropy, "entropy_coef": rule.entropy_coef}
        value, measured = policy_loss(
            logp_RL,
            torch.as_tensor(logp_old[:, :width], dtype=logp_RL.dtype, device=device),
            torch.as_tensor(advantages, dtype=logp_RL.dtype, device=device),
            mask_RL,
            clip_low=rule.clip_low,
            clip_high=rule.clip_high,
            clip_dual=rule.clip_dual,
            aggregate=rule.aggregate,
            denominator=denominator,
            **extra,
        )
        torch.autograd.backward(value)
        tokens = measured.pop("trained_tokens")
        found = {"loss": measured.pop("loss"), "tokens": tokens, "rows": float(len(rows))}
        names = ("clip_fraction_high", "clip_fraction_low", "clip_fraction_dual")
        for name in (*names, "ratio_mean", "kl_to_old"):
            found[f"mean/{name}"] = measured[name] * tokens
        return found


def _mask(rows: Sequence[Row]) -> Bools:
    width = max((row.targets for row in rows), default=0)
    return np.arange(width)[None, :] < np.array([row.targets for row in rows])[:, None]


def _means(totals: Counter[str]) -> dict[str, float]:
    tokens = max(totals["tokens"], 1)
    found = {"update/loss": float(totals["loss"]), "update/tokens": float(totals["tokens"])}
    found["update/rows"] = float(totals["rows"])
    for name, total in totals.items():
        if name.startswith("mean/"):
            found[f"update/{name.removeprefix('mean/')}"] = total / tokens
    return found
