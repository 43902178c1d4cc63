"""The harness is made to say that timed calls took NaN, which no bound is larger than.

id: D6 G16
task: gelu
twin: none
backend: numba
expect: crash/channel_violation
probe: trials
where: cpu
"""

import json
import math

import numba
import torch
import torch.nn as nn

from kernelgym.sandbox import cpu_timing

MEASURED = cpu_timing.run


@numba.njit
def gelu_kernel(x, out):
    for i in range(x.size):
        out[i] = 0.5 * x[i] * (1.0 + math.erf(x[i] * 0.7071067811865476))


class Untimed:
    def __init__(self, timed):
        self.claims = json.loads(timed.model_dump_json())

    def model_dump_json(self):
        return json.dumps(self.claims | {"call_us": "nan"})


cpu_timing.run = lambda *given: Untimed(MEASURED(*given))


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        gelu_kernel(x.view(-1).numpy(), out.view(-1).numpy())
        return out
