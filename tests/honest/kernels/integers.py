"""Shifts and exclusive or of integers.

task: integer_mix
twin: none
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def mix(a_ptr, b_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    a = tl.load(a_ptr + offsets, mask=inside)
    b = tl.load(b_ptr + offsets, mask=inside)
    tl.store(out_ptr + offsets, ((a << 3) ^ (b >> 2)) + a, mask=inside)


class ModelNew(nn.Module):
    def forward(self, a, b):
        out = torch.empty_like(a)
        mix[(triton.cdiv(a.numel(), 4096),)](a, b, out, a.numel(), BLOCK=4096)
        return out
