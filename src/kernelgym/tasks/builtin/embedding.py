"""Rows of a table, picked by integer indices."""

import torch
import torch.nn as nn

CATEGORY = "gather"
GPU_SIZES = {"VOCABULARY": 128_000, "WIDTH": 4_096, "TOKENS": 16_384}

VOCABULARY = 100
WIDTH = 48
TOKENS = 64


class Model(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.table = nn.Parameter(torch.randn(vocabulary, width))

    def forward(self, indices):
        return self.table[indices]


def get_inputs():
    return [torch.randint(0, VOCABULARY, (TOKENS,))]


def get_init_inputs():
    return [VOCABULARY, WIDTH]
