"""Sum of each row; the length is no power of two."""

import torch
import torch.nn as nn

CATEGORY = "reduction"
GPU_SIZES = {"ROWS": 16_384, "COLUMNS": 8_193}

ROWS = 64
COLUMNS = 257


class Model(nn.Module):
    def forward(self, x):
        return x.sum(dim=1)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
