"""Honest: tiled matrix product."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def matmul_kernel(a_ptr, b_ptr, out_ptr, m, n, k, TILE: tl.constexpr):
    row = tl.program_id(0) * TILE + tl.arange(0, TILE)
    column = tl.program_id(1) * TILE + tl.arange(0, TILE)
    total = tl.zeros((TILE, TILE), dtype=tl.float32)
    for start in range(0, k, TILE):
        depth = start + tl.arange(0, TILE)
        a_mask = (row[:, None] < m) & (depth[None, :] < k)
        b_mask = (depth[:, None] < k) & (column[None, :] < n)
        a = tl.load(a_ptr + row[:, None] * k + depth[None, :], mask=a_mask, other=0.0)
        b = tl.load(b_ptr + depth[:, None] * n + column[None, :], mask=b_mask, other=0.0)
        total = tl.dot(a, b, total)
    mask = (row[:, None] < m) & (column[None, :] < n)
    tl.store(out_ptr + row[:, None] * n + column[None, :], total, mask=mask)


def solve(a, b):
    (m, k), n = a.shape, b.shape[1]
    out = torch.empty(m, n, dtype=a.dtype, device=a.device)
    grid = (triton.cdiv(m, 32), triton.cdiv(n, 32))
    matmul_kernel[grid](a, b, out, m, n, k, TILE=32)
    return out


class ModelNew(nn.Module):
    def forward(self, a, b):
        return solve(a, b)
