"""A parameter and next to nothing: a task that the lint refuses, and on which nobody is accused."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.base = nn.Parameter(torch.randn(features))

    def forward(self, x):
        return self.base + 1e-5 * x


def get_inputs():
    return [torch.randn(32, 64)]


def get_init_inputs():
    return [64]
