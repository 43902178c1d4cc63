"""Every clock of the process ticks a thousandth as fast, those for the kernels as well.

id: D6 G16
task: gelu
twin: none
backend: numba
expect: correct
finding: profile_contradiction
probe: trials
where: cpu
"""

import math
import time

import numba
import torch
import torch.nn as nn

try:
    from kernelgym.sandbox import cpu_timing
except ImportError:
    cpu_timing = None

NOW = time.process_time_ns


def slow():
    return NOW() // 1000


@numba.njit
def gelu_kernel(x, out):
    for _ in range(16):
        for i in range(x.size):
            out[i] = 0.5 * x[i] * (1.0 + math.erf(x[i] * 0.7071067811865476))


time.process_time_ns = slow
if cpu_timing is not None:
    cpu_timing._now_ns = slow


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        gelu_kernel(x.view(-1).numpy(), out.view(-1).numpy())
        return out
