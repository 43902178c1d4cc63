"""Softmax over rows."""

import torch
import torch.nn as nn

CATEGORY = "softmax"
GPU_SIZES = {"ROWS": 16_384, "COLUMNS": 4_096}

ROWS = 64
COLUMNS = 200


class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=1)


def get_inputs():
    return [3.0 * torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
