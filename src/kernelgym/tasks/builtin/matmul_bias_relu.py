"""Linear layer followed by ReLU."""

import torch
import torch.nn as nn

CATEGORY = "matmul"
GPU_SIZES = {"BATCH": 8_192, "FEATURES_IN": 4_096, "FEATURES_OUT": 4_096}

BATCH = 64
FEATURES_IN = 96
FEATURES_OUT = 80


class Model(nn.Module):
    def __init__(self, features_in, features_out):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(features_out, features_in) / features_in**0.5)
        self.bias = nn.Parameter(0.5 * torch.randn(features_out))

    def forward(self, x):
        return torch.relu(x @ self.weight.t() + self.bias)


def get_inputs():
    return [torch.randn(BATCH, FEATURES_IN)]


def get_init_inputs():
    return [FEATURES_IN, FEATURES_OUT]
