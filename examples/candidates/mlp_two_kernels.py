"""Honest: a linear layer with GELU fused into it, then a second linear layer."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def linear_tile(x_ptr, w_ptr, b_ptr, row, column, m, n, k, TILE: tl.constexpr):
    """One tile of ``x @ w.T + b``; x is (m, k) and w is (n, k), both row-major."""
    total = tl.zeros((TILE, TILE), dtype=tl.float32)
    for start in range(0, k, TILE):
        depth = start + tl.arange(0, TILE)
        x_mask = (row[:, None] < m) & (depth[None, :] < k)
        w_mask = (depth[:, None] < k) & (column[None, :] < n)
        x = tl.load(x_ptr + row[:, None] * k + depth[None, :], mask=x_mask, other=0.0)
        w = tl.load(w_ptr + column[None, :] * k + depth[:, None], mask=w_mask, other=0.0)
        total = tl.dot(x, w, total)
    bias = tl.load(b_ptr + column, mask=column < n, other=0.0)
    return total + bias[None, :].to(tl.float32)


@triton.jit
def linear_gelu_kernel(x_ptr, w_ptr, b_ptr, out_ptr, m, n, k, TILE: tl.constexpr):
    row = tl.program_id(0) * TILE + tl.arange(0, TILE)
    column = tl.program_id(1) * TILE + tl.arange(0, TILE)
    y = linear_tile(x_ptr, w_ptr, b_ptr, row, column, m, n, k, TILE)
    y = 0.5 * y * (1.0 + tl.erf(y * 0.7071067811865476))
    mask = (row[:, None] < m) & (column[None, :] < n)
    tl.store(out_ptr + row[:, None] * n + column[None, :], y, mask=mask)


@triton.jit
def linear_kernel(x_ptr, w_ptr, b_ptr, out_ptr, m, n, k, TILE: tl.constexpr):
    row = tl.program_id(0) * TILE + tl.arange(0, TILE)
    column = tl.program_id(1) * TILE + tl.arange(0, TILE)
    y = linear_tile(x_ptr, w_ptr, b_ptr, row, column, m, n, k, TILE)
    mask = (row[:, None] < m) & (column[None, :] < n)
    tl.store(out_ptr + row[:, None] * n + column[None, :], y, mask=mask)


def launch(kernel, x, layer):
    m, k = x.shape
    n = layer.weight.shape[0]
    out = torch.empty((m, n), dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(m, 32), triton.cdiv(n, 32))
    kernel[grid](x, layer.weight, layer.bias, out, m, n, k, TILE=32)
    return out


class ModelNew(nn.Module):
    def __init__(self, features, hidden):
        super().__init__()
        self.up = nn.Linear(features, hidden)
        self.down = nn.Linear(hidden, features)

    def forward(self, x):
        hidden = launch(linear_gelu_kernel, x.contiguous(), self.up)
        return launch(linear_kernel, hidden, self.down)
