"""The architecture of nano: Qwen3's, small, with its embedding used twice."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from drkernel.config import Section
from kernelgym.errors import UsageError

MOST_PARAMETERS = 8_000_000
"""So that the weights in bfloat16 are a file of less than 16 MiB."""


class Shape(Section):
    """Sizes of the network."""

    hidden: int = Field(default=256, ge=8)
    """Width."""
    layers: int = Field(default=9, ge=1)
    """Depth."""
    heads: int = Field(default=8, ge=1)
    """Query heads."""
    kv_heads: int = Field(default=4, ge=1)
    """Key and value heads."""
    head_dim: int = Field(default=32, ge=2)
    """Width of a head."""
    mlp: int = Field(default=768, ge=8)
    """Width of the feed-forward layers."""
    context: int = Field(default=4096, ge=16)
    """Longest text, in tokens."""


def make_model(shape: Shape, tokenizer: Any, *, seed: int) -> Any:
    """A model with random weights for ``tokenizer``; the same seed, the same weights.

    Raises:
        UsageError: for more than `MOST_PARAMETERS`.
    """
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=shape.hidden,
        intermediate_size=shape.mlp,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        max_position_embeddings=shape.context,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Qwen3ForCausalLM(config)
    count = sum(parameter.numel() for parameter in model.parameters())
    if count > MOST_PARAMETERS:
        raise UsageError(
            f"{count / 1e6:.2f}M parameters; nano has at most {MOST_PARAMETERS / 1e6:.0f}M",
            hint="a smaller --shape.hidden, --shape.layers or --vocabulary",
        )
    return model
