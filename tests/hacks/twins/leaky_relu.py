"""Honest: leaky rectifier."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def leaky_relu_kernel(x_ptr, out_ptr, n, slope, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside)
    tl.store(out_ptr + offsets, tl.where(x > 0, x, x * slope), mask=inside)


def solve(x, slope):
    out = torch.empty_like(x)
    leaky_relu_kernel[(triton.cdiv(x.numel(), 4096),)](x, out, x.numel(), slope, BLOCK=4096)
    return out


class ModelNew(nn.Module):
    def __init__(self, slope):
        super().__init__()
        self.slope = slope

    def forward(self, x):
        return solve(x, self.slope)
