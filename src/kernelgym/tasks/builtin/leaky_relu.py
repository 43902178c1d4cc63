"""Leaky ReLU with a slope that shows on negative inputs."""

import torch
import torch.nn as nn
import torch.nn.functional as F

CATEGORY = "element-wise"
GPU_SIZES = {"ROWS": 16_384, "COLUMNS": 4_096}

ROWS = 48
COLUMNS = 300


class Model(nn.Module):
    def __init__(self, slope):
        super().__init__()
        self.slope = slope

    def forward(self, x):
        return F.leaky_relu(x, negative_slope=self.slope)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return [0.2]
