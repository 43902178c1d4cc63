"""Honest: layer normalisation of a row held in registers."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def layer_norm_kernel(x_ptr, w_ptr, b_ptr, out_ptr, features, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < features
    x = tl.load(x_ptr + row * features + column, mask=inside, other=0.0)
    mean = tl.sum(x, axis=0) / features
    centred = tl.where(inside, x - mean, 0.0)
    variance = tl.sum(centred * centred, axis=0) / features
    weight = tl.load(w_ptr + column, mask=inside)
    bias = tl.load(b_ptr + column, mask=inside)
    y = centred / tl.sqrt(variance + eps) * weight + bias
    tl.store(out_ptr + row * features + column, y, mask=inside)


def solve(x, weight, bias):
    rows, features = x.shape
    out = torch.empty_like(x)
    block = triton.next_power_of_2(features)
    layer_norm_kernel[(rows,)](x, weight, bias, out, features, 1e-5, BLOCK=block)
    return out


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))

    def forward(self, x):
        return solve(x, self.weight, self.bias)
