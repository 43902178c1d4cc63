"""Rectifier whose usual inputs are positive; hidden ones are not, and one has another shape."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)


def get_inputs():
    return [torch.rand(32, 200)]


def get_init_inputs():
    return []


def get_hidden_inputs():
    return [[torch.randn(32, 200)], [torch.randn(17, 9)]]
