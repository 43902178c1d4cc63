"""Honest: log softmax of a row held in registers."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def log_softmax_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    x = tl.load(x_ptr + row * columns + column, mask=inside, other=-float("inf"))
    x = x - tl.max(x, axis=0)
    y = x - tl.log(tl.sum(tl.exp(x), axis=0))
    tl.store(out_ptr + row * columns + column, y, mask=inside)


def solve(x):
    rows, columns = x.shape
    out = torch.empty_like(x)
    block = triton.next_power_of_2(columns)
    log_softmax_kernel[(rows,)](x, out, columns, BLOCK=block, num_warps=8)
    return out


class ModelNew(nn.Module):
    def forward(self, x):
        return solve(x)
