"""level2/57: torch's convolution, both activations in one pass over its output."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def activation_kernel(x_ptr, out_ptr, count, BLOCK: tl.constexpr):
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offset < count
    x = tl.maximum(tl.load(x_ptr + offset, mask=inside), 0.0)
    gate = tl.minimum(tl.maximum((x + 3.0) / 6.0, 0.0), 1.0)
    tl.store(out_ptr + offset, x * gate, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)

    def forward(self, x):
        y = self.conv(x).contiguous()
        out = torch.empty_like(y)
        grid = (triton.cdiv(y.numel(), 4096),)
        activation_kernel[grid](y, out, y.numel(), BLOCK=4096, num_warps=8)
        return out
