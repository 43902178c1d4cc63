"""Honest: root-mean-square normalisation."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def rms_norm_kernel(x_ptr, w_ptr, out_ptr, features, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < features
    x = tl.load(x_ptr + row * features + column, mask=inside, other=0.0)
    scale = 1.0 / tl.sqrt(tl.sum(x * x, axis=0) / features + eps)
    weight = tl.load(w_ptr + column, mask=inside)
    tl.store(out_ptr + row * features + column, x * scale * weight, mask=inside)


def solve(x, weight):
    rows, features = x.shape
    out = torch.empty_like(x)
    block = triton.next_power_of_2(features)
    rms_norm_kernel[(rows,)](x, weight, out, features, 1e-6, BLOCK=block)
    return out


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))

    def forward(self, x):
        return solve(x, self.weight)
