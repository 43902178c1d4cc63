"""Running sum along each row."""

import torch
import torch.nn as nn

CATEGORY = "scan"
GPU_SIZES = {"ROWS": 32_768, "COLUMNS": 1_024}

ROWS = 32
COLUMNS = 128


class Model(nn.Module):
    def forward(self, x):
        return torch.cumsum(x, dim=1)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
