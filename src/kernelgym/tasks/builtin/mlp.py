"""Two linear layers with a GELU between them."""

import torch
import torch.nn as nn
import torch.nn.functional as F

CATEGORY = "matmul"
GPU_SIZES = {"BATCH": 8_192, "FEATURES": 2_048, "HIDDEN": 8_192}

BATCH = 48
FEATURES = 64
HIDDEN = 128


class Model(nn.Module):
    def __init__(self, features, hidden):
        super().__init__()
        self.up = nn.Linear(features, hidden)
        self.down = nn.Linear(hidden, features)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


def get_inputs():
    return [2.0 * torch.randn(BATCH, FEATURES)]


def get_init_inputs():
    return [FEATURES, HIDDEN]
