"""A copy of a vector of 256 million elements: moves twice one GiB and computes nothing."""

import torch
import torch.nn as nn

SIZE = 268435456


class Model(nn.Module):
    def forward(self, x):
        return x.clone()


def get_inputs():
    return [torch.randn(SIZE)]


def get_init_inputs():
    return []
