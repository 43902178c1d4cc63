"""Product of two matrices of 512 by 512."""

import torch
import torch.nn as nn

SIZE = 512


class Model(nn.Module):
    def forward(self, x, y):
        return x @ y


def get_inputs():
    return [torch.randn(SIZE, SIZE), torch.randn(SIZE, SIZE)]


def get_init_inputs():
    return []
