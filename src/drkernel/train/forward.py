"""Log-probabilities and entropies of targets: the one forward pass that training knows.

The vocabulary is only ever multiplied out for the targets, in slices that are computed again in
the backward pass: with 150,000 words the logits of a long row would be larger than the model.

Shapes: N = targets of the batch laid flat, H = hidden size, V = vocabulary.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from drkernel.train.batches import MicroBatch
from drkernel.train.models import Compute

SLICE_ELEMENTS = 1 << 26
"""Logits computed at once (256 MiB in float32)."""


@dataclass(frozen=True)
class TokenScores:
    """What the model says about each target."""

    logp_N: Tensor
    """Natural log-probability, float32 (float64 for a float64 model); differentiable."""
    entropy_N: Tensor
    """Entropy of the distribution it was drawn from, in nats; differentiable."""


def autocast(device: torch.device, compute: Compute) -> AbstractContextManager[Any]:
    """bf16: matrix products in bfloat16 over float32 weights; fp32: nothing changes."""
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=compute == "bf16")


def score_tokens(
    model: Any,
    batch: MicroBatch,
    *,
    compute: Compute = "fp32",
    temperature: float = 1.0,
    slice_elements: int = SLICE_ELEMENTS,
) -> TokenScores:
    """Scores of the batch's targets under ``model`` (a causal language model of transformers).

    ``temperature`` divides the logits, so that the scores are those of the distribution that was
    sampled from. 0 (greedy) has no distribution: the plain one is taken.
    """
    device, parameter = model.device, next(model.parameters())
    batch = batch.to(device)
    with autocast(device, compute):
        states_NH = _states(model, batch, parameter.dtype)
        head = model.get_output_embeddings()
        scale = 1.0 / temperature if temperature > 0 else 1.0
        size = max(1, slice_elements // head.weight.shape[0])
        parts = [
            _scores(
                head, states_NH[start : start + size], batch.target_N[start : start + size], scale
            )
            for start in range(0, batch.targets, size)
        ]
    if not parts:
        empty_N = states_NH.new_zeros(0, dtype=torch.float32)
        return TokenScores(empty_N, empty_N)
    return TokenScores(torch.cat([p[0] for p in parts]), torch.cat([p[1] for p in parts]))


def _states(model: Any, batch: MicroBatch, dtype: torch.dtype) -> Tensor:
    """Hidden states before the targets, [N, H]."""
    implementation = str(getattr(model.config, "_attn_implementation", "") or "eager")
    output = model.get_decoder()(
        input_ids=batch.input_ids,
        position_ids=batch.position_ids,
        attention_mask=batch.attention_mask(implementation, dtype),
        use_cache=False,
    )
    hidden = output.last_hidden_state
    states_NH: Tensor = hidden.reshape(-1, hidden.shape[-1])[batch.before_N]
    return states_NH


def _scores(head: Any, states_NH: Tensor, target_N: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    if torch.is_grad_enabled() and states_NH.requires_grad:
        pair: tuple[Tensor, Tensor] = checkpoint(
            _slice_scores, head, states_NH, target_N, scale, use_reentrant=False
        )
        return pair
    return _slice_scores(head, states_NH, target_N, scale)


def _slice_scores(
    head: Any, states_NH: Tensor, target_N: Tensor, scale: float
) -> tuple[Tensor, Tensor]:
    logits_NV = head(states_NH)
    if logits_NV.dtype in (torch.bfloat16, torch.float16):
        logits_NV = logits_NV.float()
    logp_NV = torch.log_softmax(logits_NV * scale, dim=-1)
    logp_N = logp_NV.gather(-1, target_N[:, None])[:, 0]
    entropy_N = -(logp_NV.exp() * logp_NV).sum(-1)
    return logp_N, entropy_N
