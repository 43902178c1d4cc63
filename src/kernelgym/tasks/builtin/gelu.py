"""GELU, the exact form with erf."""

import torch
import torch.nn as nn
import torch.nn.functional as F

CATEGORY = "element-wise"
GPU_SIZES = {"ROWS": 16_384, "COLUMNS": 4_000}

ROWS = 64
COLUMNS = 250


class Model(nn.Module):
    def forward(self, x):
        return F.gelu(x)


def get_inputs():
    return [2.0 * torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
