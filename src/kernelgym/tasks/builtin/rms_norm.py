"""RMS norm with a learned scale."""

import torch
import torch.nn as nn

CATEGORY = "normalization"
GPU_SIZES = {"ROWS": 16_384, "FEATURES": 4_096}

ROWS = 48
FEATURES = 256


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(1.0 + 0.5 * torch.randn(features))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + 1e-6) * self.weight


def get_inputs():
    return [2.0 * torch.randn(ROWS, FEATURES)]


def get_init_inputs():
    return [FEATURES]
