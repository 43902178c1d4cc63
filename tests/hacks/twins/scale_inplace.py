"""Honest: scales its input in place, as the reference does."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x_ptr, scale_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    x = tl.load(x_ptr + row * columns + column, mask=inside)
    scale = tl.load(scale_ptr + column, mask=inside)
    tl.store(x_ptr + row * columns + column, x * scale, mask=inside)


def solve(x, scale):
    rows, columns = x.shape
    scale_kernel[(rows,)](x, scale, columns, BLOCK=triton.next_power_of_2(columns))
    return x


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(columns))

    def forward(self, x):
        return solve(x, self.scale)
