"""Linear layer, then the sum of each row."""

import torch
import torch.nn as nn

ROWS, COLUMNS = 4096, 2048


class Model(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.linear = nn.Linear(columns, columns)

    def forward(self, x):
        return self.linear(x).sum(dim=1)


def get_inputs():
    return [torch.rand(ROWS, COLUMNS)]


def get_init_inputs():
    return [COLUMNS]
