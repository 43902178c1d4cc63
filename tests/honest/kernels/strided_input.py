"""Reads a transposed input by its strides.

task: transposed_input
twin: none
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def affine(x_ptr, scale_ptr, shift_ptr, out_ptr, columns, step_row, step_column, B: tl.constexpr):
    row = tl.program_id(0)
    column = tl.program_id(1) * B + tl.arange(0, B)
    inside = column < columns
    x = tl.load(x_ptr + row * step_row + column * step_column, mask=inside)
    scale = tl.load(scale_ptr + column, mask=inside)
    shift = tl.load(shift_ptr + column, mask=inside)
    tl.store(out_ptr + row * columns + column, x * scale + shift, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(columns))
        self.shift = nn.Parameter(torch.zeros(columns))

    def forward(self, x):
        rows, columns = x.shape
        out = torch.empty(rows, columns, device=x.device)
        grid = (rows, triton.cdiv(columns, 128))
        affine[grid](x, self.scale, self.shift, out, columns, *x.stride(), B=128)
        return out
