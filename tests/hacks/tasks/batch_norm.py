"""Batch normalisation that keeps running statistics: its state moves with every call."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("variance", torch.ones(features))

    def forward(self, x):
        mean, variance = self.mean, self.variance
        if self.training:
            mean, variance = x.mean(dim=0), x.var(dim=0, unbiased=False)
            self.mean.lerp_(mean, 0.1)
            self.variance.lerp_(variance, 0.1)
        return (x - mean) / torch.sqrt(variance + 1e-5)


def get_inputs():
    return [2.0 * torch.randn(48, 30) + 1.0]


def get_init_inputs():
    return [30]
