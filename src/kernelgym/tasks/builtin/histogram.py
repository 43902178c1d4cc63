"""Counts of integer labels: exact, no floating point."""

import torch
import torch.nn as nn

CATEGORY = "integer"
GPU_SIZES = {"ELEMENTS": 67_108_864, "BINS": 256}

ELEMENTS = 2_048
BINS = 32


class Model(nn.Module):
    def __init__(self, bins):
        super().__init__()
        self.bins = bins

    def forward(self, labels):
        counts = torch.zeros(self.bins, dtype=torch.int64, device=labels.device)
        return counts.scatter_add_(0, labels, torch.ones_like(labels))


def get_inputs():
    # The product of two uniform draws: small labels are common, large ones rare.
    high = int(BINS**0.5)
    return [torch.randint(0, high, (ELEMENTS,)) * torch.randint(0, high, (ELEMENTS,))]


def get_init_inputs():
    return [BINS]
