"""Coverage: torch's linear layer, a sum of our own."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def sum_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + column, mask=column < columns, other=0.0)
    tl.store(out_ptr + row, tl.sum(x, axis=0))


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.linear = nn.Linear(columns, columns)

    def forward(self, x):
        y = self.linear(x).contiguous()
        rows, columns = y.shape
        out = torch.empty(rows, device=x.device, dtype=x.dtype)
        sum_kernel[(rows,)](y, out, columns, BLOCK=triton.next_power_of_2(columns))
        return out
