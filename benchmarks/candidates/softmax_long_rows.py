"""level1/23: softmax of rows too long for registers: running maximum and sum, then again."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def long_softmax_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    base = tl.program_id(0).to(tl.int64) * columns
    offset = tl.arange(0, BLOCK)
    tops = tl.full((BLOCK,), -float("inf"), dtype=tl.float32)
    sums = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, columns, BLOCK):
        inside = start + offset < columns
        x = tl.load(x_ptr + base + start + offset, mask=inside, other=-1e30)
        higher = tl.maximum(tops, x)
        sums = sums * tl.exp(tops - higher) + tl.where(inside, tl.exp(x - higher), 0.0)
        tops = higher
    top = tl.max(tops, axis=0)
    total = tl.sum(sums * tl.exp(tops - top), axis=0)
    for start in range(0, columns, BLOCK):
        inside = start + offset < columns
        x = tl.load(x_ptr + base + start + offset, mask=inside)
        tl.store(out_ptr + base + start + offset, tl.exp(x - top) / total, mask=inside)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        long_softmax_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=8192, num_warps=16)
        return out
