"""level2/99: torch's linear layer; GELU and softmax of a row in registers."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def gelu_softmax_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    x = tl.load(x_ptr + row * columns + column, mask=inside, other=0.0)
    y = 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))
    y = tl.where(inside, y, -float("inf"))
    e = tl.exp(y - tl.max(y, axis=0))
    tl.store(out_ptr + row * columns + column, e / tl.sum(e, axis=0), mask=inside)


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)

    def forward(self, x):
        y = self.linear(x).contiguous()
        out = torch.empty_like(y)
        block = triton.next_power_of_2(y.shape[1])
        gelu_softmax_kernel[(y.shape[0],)](y, out, y.shape[1], BLOCK=block, num_warps=16)
        return out
