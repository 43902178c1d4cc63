"""Shift, exclusive or and sum of 32-bit integers, negative ones included."""

import torch
import torch.nn as nn

CATEGORY = "integer"
GPU_SIZES = {"ELEMENTS": 67_108_864}

ELEMENTS = 8_192


class Model(nn.Module):
    def forward(self, a, b):
        return ((a << 3) ^ (b >> 2)) + a


def get_inputs():
    return [
        torch.randint(-1_000_000, 1_000_000, (ELEMENTS,), dtype=torch.int32),
        torch.randint(-1_000_000, 1_000_000, (ELEMENTS,), dtype=torch.int32),
    ]


def get_init_inputs():
    return []
