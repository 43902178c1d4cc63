"""SiLU of one matrix times another."""

import torch
import torch.nn as nn

ROWS, COLUMNS = 1024, 2048


class Model(nn.Module):
    def forward(self, x, y):
        return torch.nn.functional.silu(x) * y


def get_inputs():
    return [torch.randn(ROWS, COLUMNS), torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
