"""Honest: mean over the middle dimension."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def mean_kernel(x_ptr, out_ptr, length, features, BLOCK: tl.constexpr):
    batch = tl.program_id(0)
    feature = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = feature < features
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for step in range(0, length):
        place = x_ptr + (batch * length + step) * features + feature
        total += tl.load(place, mask=inside, other=0.0)
    tl.store(out_ptr + batch * features + feature, total / length, mask=inside)


def solve(x):
    batch, length, features = x.shape
    out = torch.empty(batch, features, dtype=x.dtype, device=x.device)
    mean_kernel[(batch, triton.cdiv(features, 64))](x, out, length, features, BLOCK=64)
    return out


class ModelNew(nn.Module):
    def forward(self, x):
        return solve(x)
