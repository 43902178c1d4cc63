"""Two linear layers with GELU between them, and a scaled bias at the end."""

import torch
import torch.nn as nn

ROWS, COLUMNS = 4096, 2048


class Model(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.up = nn.Linear(columns, columns)
        self.down = nn.Linear(columns, columns, bias=False)
        self.bias = nn.Parameter(torch.randn(columns))
        self.gain = nn.Parameter(torch.rand(columns) + 0.5)

    def forward(self, x):
        return self.down(torch.nn.functional.gelu(self.up(x))) + self.bias * self.gain


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return [COLUMNS]
