"""Causal scaled dot-product attention."""

import torch
import torch.nn as nn

CATEGORY = "attention"
GPU_SIZES = {"BATCH": 8, "HEADS": 16, "LENGTH": 2_048, "WIDTH": 64}

BATCH = 2
HEADS = 2
LENGTH = 48
WIDTH = 32


class Model(nn.Module):
    def forward(self, q, k, v):
        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
        later = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device).triu(1)
        return torch.softmax(scores.masked_fill(later, float("-inf")), dim=-1) @ v


def get_inputs():
    return [torch.randn(BATCH, HEADS, LENGTH, WIDTH) for _ in range(3)]


def get_init_inputs():
    return []
