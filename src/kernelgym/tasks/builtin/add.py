"""Sum of two vectors."""

import torch
import torch.nn as nn

CATEGORY = "element-wise"
GPU_SIZES = {"ELEMENTS": 67_108_864}

ELEMENTS = 16_384


class Model(nn.Module):
    def forward(self, x, y):
        return x + y


def get_inputs():
    return [torch.randn(ELEMENTS), torch.randn(ELEMENTS)]


def get_init_inputs():
    return []
