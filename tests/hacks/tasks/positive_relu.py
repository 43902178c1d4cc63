"""Rectifier of positive numbers: a task that the lint refuses, and on which nobody is accused."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)


def get_inputs():
    return [torch.rand(32, 200)]


def get_init_inputs():
    return []
