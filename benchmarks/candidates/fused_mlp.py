"""Coverage: both layers of our own, activation and bias in their epilogues."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def layer_kernel(
    x_ptr, w_ptr, b_ptr, gain_ptr, out_ptr, m, n, k,
    GELU: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    column = tl.program_id(1) * BN + tl.arange(0, BN)
    depth = tl.arange(0, BK)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, k, BK):
        inside = start + depth < k
        x = tl.load(
            x_ptr + row[:, None] * k + (start + depth)[None, :],
            mask=(row < m)[:, None] & inside[None, :], other=0.0,
        )  # fmt: skip
        w = tl.load(
            w_ptr + column[None, :] * k + (start + depth)[:, None],
            mask=(column < n)[None, :] & inside[:, None], other=0.0,
        )  # fmt: skip
        total = tl.dot(x, w, total, input_precision="tf32")
    b = tl.load(b_ptr + column, mask=column < n, other=0.0)
    if not GELU:
        b *= tl.load(gain_ptr + column, mask=column < n, other=0.0)
    y = total + b[None, :]
    if GELU:
        y = 0.5 * y * (1.0 + tl.erf(y * 0.7071067811865476))
    mask = (row < m)[:, None] & (column < n)[None, :]
    tl.store(out_ptr + row[:, None] * n + column[None, :], y, mask=mask)


def layer(x, weight, bias, gain, gelu):
    (m, k), n = x.shape, weight.shape[0]
    out = torch.empty((m, n), device=x.device, dtype=x.dtype)
    grid = (triton.cdiv(m, 128), triton.cdiv(n, 128))
    layer_kernel[grid](
        x, weight, bias, gain, out, m, n, k,
        GELU=gelu, BM=128, BN=128, BK=32, num_warps=8, num_stages=3,
    )  # fmt: skip
    return out


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.up = nn.Linear(columns, columns)
        self.down = nn.Linear(columns, columns, bias=False)
        self.bias = nn.Parameter(torch.randn(columns))
        self.gain = nn.Parameter(torch.rand(columns) + 0.5)

    def forward(self, x):
        wide = layer(x.contiguous(), self.up.weight, self.up.bias, self.gain, True)
        return layer(wide, self.down.weight, self.bias, self.gain, False)
