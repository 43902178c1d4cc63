"""Always zero: a task that the lint refuses, and on which nobody is accused."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.clamp(torch.minimum(x, torch.zeros_like(x)), 0.0, 1.0)


def get_inputs():
    return [torch.randn(32, 100)]


def get_init_inputs():
    return []
