"""level1/47: sums over the middle dimension, a strip of columns a program."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def strip_sum_kernel(x_ptr, out_ptr, rows, columns, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    batch = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    row = tl.arange(0, ROWS)
    x_ptr += batch * rows * columns
    total = tl.zeros((ROWS, BLOCK), dtype=tl.float32)
    for start in range(0, rows, ROWS):
        mask = (start + row < rows)[:, None] & (column < columns)[None, :]
        total += tl.load(
            x_ptr + (start + row)[:, None] * columns + column[None, :], mask=mask, other=0.0
        )
    tl.store(out_ptr + batch * columns + column, tl.sum(total, axis=0), mask=column < columns)


class ModelNew(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        assert self.dim == 1
        x = x.contiguous()
        batch, rows, columns = x.shape
        out = torch.empty((batch, 1, columns), device=x.device, dtype=x.dtype)
        grid = (batch, triton.cdiv(columns, 256))
        strip_sum_kernel[grid](x, out, rows, columns, ROWS=16, BLOCK=256, num_warps=8)
        return out
