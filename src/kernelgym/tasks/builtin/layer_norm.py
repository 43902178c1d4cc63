"""Layer norm with scale and shift that are not one and zero."""

import torch
import torch.nn as nn
import torch.nn.functional as F

CATEGORY = "normalization"
GPU_SIZES = {"ROWS": 16_384, "FEATURES": 4_096}

ROWS = 48
FEATURES = 200


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(1.0 + 0.5 * torch.randn(features))
        self.bias = nn.Parameter(0.5 * torch.randn(features))

    def forward(self, x):
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, eps=1e-5)


def get_inputs():
    return [3.0 * torch.randn(ROWS, FEATURES) + 1.0]


def get_init_inputs():
    return [FEATURES]
