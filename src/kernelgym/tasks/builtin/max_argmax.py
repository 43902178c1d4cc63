"""Largest element of each row and where it stands: two outputs, one of them integer."""

import torch
import torch.nn as nn

CATEGORY = "reduction"
GPU_SIZES = {"ROWS": 16_384, "COLUMNS": 4_096}

ROWS = 64
COLUMNS = 200


class Model(nn.Module):
    def forward(self, x):
        values, indices = torch.max(x, dim=1)
        return values, indices


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
