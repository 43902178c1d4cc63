"""AdamW with a schedule, clipping by norm, and steps that are skipped when a gradient is no number.

Weights are kept in float32 whatever the forward pass computes in: at a learning rate of 1e-6 an
update is smaller than half a bfloat16 step of most weights and would be lost.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field

from drkernel.config import Section

Shape = Literal["constant", "linear", "cosine"]


class OptimizerSettings(Section):
    """How weights are updated."""

    lr: float = Field(default=1e-6, gt=0)
    """Highest learning rate."""
    beta1: float = Field(default=0.9, ge=0, lt=1)
    """Decay of the mean of gradients."""
    beta2: float = Field(default=0.999, ge=0, lt=1)
    """Decay of the mean of their squares."""
    eps: float = Field(default=1e-8, gt=0)
    """Added to the root of the mean square."""
    weight_decay: float = Field(default=0.01, ge=0)
    """Decoupled decay of matrices; vectors (norms, biases) are never decayed."""
    clip_norm: float = Field(default=1.0, gt=0)
    """Gradients longer than this are scaled down to it."""
    schedule: Shape = "constant"
    """How the rate falls after the warm-up."""
    warmup_steps: int = Field(default=0, ge=0)
    """Steps over which the rate rises linearly from 0."""
    warmup_share: float = Field(default=0.0, ge=0, lt=1)
    """The same as a share of all steps; the larger of the two counts."""
    final_share: float = Field(default=0.0, ge=0, le=1)
    """Rate after the last step as a share of ``lr``, for "linear" and "cosine"."""


def rate_at(settings: OptimizerSettings, step: float, steps: int) -> float:
    """Learning rate of step ``step`` (0-based) of ``steps``; between two steps, too.

    >>> warm = OptimizerSettings(lr=1.0, schedule="linear", warmup_steps=2)
    >>> [round(rate_at(warm, step, 6), 3) for step in range(6)]
    [0.5, 1.0, 1.0, 0.75, 0.5, 0.25]
    """
    warmup = max(settings.warmup_steps, math.ceil(settings.warmup_share * steps))
    if step < warmup:
        return settings.lr * (step + 1) / warmup
    if settings.schedule == "constant":
        return settings.lr
    done = min(1.0, (step - warmup) / max(1, steps - warmup))
    left = 1.0 - done if settings.schedule == "linear" else 0.5 * (1.0 + math.cos(math.pi * done))
    return settings.lr * (settings.final_share + (1.0 - settings.final_share) * left)


@dataclass(frozen=True)
class StepReport:
    """What became of one optimizer step."""

    lr: float
    """Learning rate used."""
    grad_norm: float
    """Norm of the gradient before clipping; may be infinite or NaN when skipped."""
    skipped: bool
    """The gradient was not finite: weights and moments are as before."""

    def as_metrics(self) -> dict[str, float]:
        """Flat numbers for a tracker."""
        return {
            "optimizer/lr": self.lr,
            "optimizer/grad_norm": self.grad_norm,
            "optimizer/skipped": float(self.skipped),
        }


class Optimizer:
    """One model's AdamW."""

    def __init__(self, model: Any, settings: OptimizerSettings, steps: int) -> None:
        """``steps``: how many the schedule is made for."""
        import torch

        self.settings, self.steps = settings, steps
        self.taken = 0
        """Steps asked for so far, skipped ones included: the place in the schedule."""
        self._parameters = [p for p in model.parameters() if p.requires_grad]
        matrices = [p for p in self._parameters if p.ndim >= 2]
        vectors = [p for p in self._parameters if p.ndim < 2]
        groups = [
            {"params": matrices, "weight_decay": settings.weight_decay},
            {"params": vectors, "weight_decay": 0.0},
        ]
        self._adamw = torch.optim.AdamW(
            [group for group in groups if group["params"]],
            lr=settings.lr,
            betas=(settings.beta1, settings.beta2),
            eps=settings.eps,
            fused=self._parameters[0].is_cuda,
        )

    def step(self, *, share_done: float = 0.0) -> StepReport:
        """Clip, update, clear; a gradient that is not finite updates nothing.

        ``share_done``: how much of the run is over, where that is more than the steps say.
        """
        import torch

        place = max(float(self.taken), share_done * self.steps)
        lr = rate_at(self.settings, place, self.steps)
        norm = torch.nn.utils.clip_grad_norm_(self._parameters, self.settings.clip_norm)
        finite = bool(torch.isfinite(norm))
        if finite:
            for group in self._adamw.param_groups:
                group["lr"] = lr
            self._adamw.step()
        self.clear()
        self.taken += 1
        return StepReport(lr, float(norm), skipped=not finite)

    def clear(self) -> None:
        """Forget the gradients."""
        self._adamw.zero_grad(set_to_none=True)

    def state(self) -> dict[str, Any]:
        """Everything `restore` needs."""
        return {"adamw": self._adamw.state_dict(), "taken": self.taken}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a stored state."""
        self._adamw.load_state_dict(state["adamw"])
        self.taken = int(state["taken"])
