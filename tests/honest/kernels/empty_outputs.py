"""Leaves out the launch for an input without elements.

task: empty_batch
twin: none
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def affine(x_ptr, scale_ptr, shift_ptr, out_ptr, features, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < features
    x = tl.load(x_ptr + row * features + column, mask=inside)
    scale = tl.load(scale_ptr + column, mask=inside)
    shift = tl.load(shift_ptr + column, mask=inside)
    tl.store(out_ptr + row * features + column, x * scale + shift, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(features))
        self.shift = nn.Parameter(torch.zeros(features))

    def one(self, x):
        out = torch.empty_like(x)
        if x.numel():
            block = triton.next_power_of_2(x.shape[1])
            affine[(x.shape[0],)](x, self.scale, self.shift, out, x.shape[1], BLOCK=block)
        return out

    def forward(self, x, y):
        return self.one(x), self.one(y)
