"""Logarithm of the softmax over rows."""

import torch
import torch.nn as nn
import torch.nn.functional as F

CATEGORY = "softmax"
GPU_SIZES = {"ROWS": 16_384, "COLUMNS": 32_000}

ROWS = 64
COLUMNS = 130


class Model(nn.Module):
    def forward(self, x):
        return F.log_softmax(x, dim=1)


def get_inputs():
    return [3.0 * torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
