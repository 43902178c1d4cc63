"""Affine map of two batches, one of which is empty."""

import torch
import torch.nn as nn

CATEGORY = "edge case"
GPU_SIZES = {"ROWS": 16_384, "FEATURES": 4_096}

ROWS = 32
FEATURES = 64


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.scale = nn.Parameter(1.0 + 0.5 * torch.randn(features))
        self.shift = nn.Parameter(torch.randn(features))

    def forward(self, x, y):
        return x * self.scale + self.shift, y * self.scale + self.shift


def get_inputs():
    return [torch.randn(0, FEATURES), torch.randn(ROWS, FEATURES)]


def get_init_inputs():
    return [FEATURES]
