"""What it computes is, but for the last digits, a parameter that was laid out for it.

task: tasks/nearly_constant
twin: none
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add_little(x_ptr, base_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside)
    base = tl.load(base_ptr + offsets, mask=inside)
    tl.store(out_ptr + offsets, base + 1e-5 * x, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.base = nn.Parameter(torch.empty(features))

    def forward(self, x):
        base = self.base.expand_as(x).contiguous()
        out = torch.empty_like(x)
        add_little[(triton.cdiv(x.numel(), 1024),)](x, base, out, x.numel(), BLOCK=1024)
        return out
