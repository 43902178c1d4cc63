"""Product of two matrices with odd sizes."""

import torch
import torch.nn as nn

CATEGORY = "matmul"
GPU_SIZES = {"M": 4_096, "K": 4_072, "N": 4_080}

M = 96
K = 72
N = 80


class Model(nn.Module):
    def forward(self, a, b):
        return torch.matmul(a, b)


def get_inputs():
    return [torch.randn(M, K), torch.randn(K, N)]


def get_init_inputs():
    return []
