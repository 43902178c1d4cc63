"""Layer norm of 2,048 rows of 1,024."""

import torch
import torch.nn as nn

ROWS, COLUMNS = 2048, 1024


class Model(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.norm = nn.LayerNorm(columns)

    def forward(self, x):
        return self.norm(x)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return [COLUMNS]
