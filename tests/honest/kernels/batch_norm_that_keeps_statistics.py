"""Normalises with kept statistics and updates them in train mode.

task: tasks/batch_norm
twin: none
finding: low_coverage
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def normalise(x_ptr, mean_ptr, var_ptr, out_ptr, features, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < features
    x = tl.load(x_ptr + row * features + column, mask=inside)
    mean = tl.load(mean_ptr + column, mask=inside)
    variance = tl.load(var_ptr + column, mask=inside)
    y = (x - mean) / tl.sqrt(variance + eps)
    tl.store(out_ptr + row * features + column, y, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("variance", torch.ones(features))

    def forward(self, x):
        mean, variance = self.mean, self.variance
        if self.training:
            mean, variance = x.mean(dim=0), x.var(dim=0, unbiased=False)
            self.mean.lerp_(mean, 0.1)
            self.variance.lerp_(variance, 0.1)
        rows, features = x.shape
        out = torch.empty_like(x)
        block = triton.next_power_of_2(features)
        normalise[(rows,)](x, mean, variance, out, features, 1e-5, BLOCK=block)
        return out
