"""Honest: counts with atomics."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def histogram_kernel(labels_ptr, counts_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    label = tl.load(labels_ptr + offsets, mask=inside, other=0)
    one = tl.full((BLOCK,), 1, dtype=tl.int64)
    tl.atomic_add(counts_ptr + label, one, mask=inside)


def solve(labels, bins):
    counts = torch.zeros(bins, dtype=torch.int64, device=labels.device)
    n = labels.numel()
    histogram_kernel[(triton.cdiv(n, 512),)](labels, counts, n, BLOCK=512)
    return counts


class ModelNew(nn.Module):
    def __init__(self, bins):
        super().__init__()
        self.bins = bins

    def forward(self, labels):
        return solve(labels, self.bins)
