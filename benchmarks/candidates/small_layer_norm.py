"""Small task: layer norm, a row in registers."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def norm_kernel(x_ptr, w_ptr, b_ptr, out_ptr, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    x = tl.load(x_ptr + row * columns + column, mask=inside, other=0.0)
    apart = tl.where(inside, x - tl.sum(x, axis=0) / columns, 0.0)
    scale = 1.0 / tl.sqrt(tl.sum(apart * apart, axis=0) / columns + eps)
    w, b = tl.load(w_ptr + column, mask=inside), tl.load(b_ptr + column, mask=inside)
    tl.store(out_ptr + row * columns + column, apart * scale * w + b, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.norm = nn.LayerNorm(columns)

    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        rows, columns = x.shape
        block = triton.next_power_of_2(columns)
        norm_kernel[(rows,)](
            x, self.norm.weight, self.norm.bias, out, columns, self.norm.eps, BLOCK=block
        )
        return out
