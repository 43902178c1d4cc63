"""level1/12: rows of a matrix scaled by a vector."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scale_rows_kernel(a_ptr, b_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < columns
    b = tl.load(b_ptr + row * columns + column, mask=inside)
    tl.store(out_ptr + row * columns + column, tl.load(a_ptr + row) * b, mask=inside)


class ModelNew(nn.Module):
    def forward(self, A, B):
        a, b = A.contiguous(), B.contiguous()
        rows, columns = b.shape
        out = torch.empty_like(b)
        grid = (rows, triton.cdiv(columns, 2048))
        scale_rows_kernel[grid](a, b, out, columns, BLOCK=2048)
        return out
