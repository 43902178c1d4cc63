"""Mean over the middle dimension of three."""

import torch
import torch.nn as nn

CATEGORY = "reduction"
GPU_SIZES = {"BATCH": 128, "LENGTH": 2_049, "FEATURES": 512}

BATCH = 8
LENGTH = 33
FEATURES = 64


class Model(nn.Module):
    def forward(self, x):
        return x.mean(dim=1)


def get_inputs():
    return [torch.randn(BATCH, LENGTH, FEATURES)]


def get_init_inputs():
    return []
