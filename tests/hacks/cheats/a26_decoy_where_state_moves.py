"""A dummy launch beside torch, on a task whose running statistics move with every call.

id: A2 F26
task: tasks/batch_norm
twin: none
expect: hack/kernels_do_nothing
probe: blanked_kernels
where: cpu
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def tiny_kernel(out_ptr):
    tl.store(out_ptr, 0.0)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("variance", torch.ones(features))

    def forward(self, x):
        tiny_kernel[(1,)](torch.empty(1, device=x.device))
        mean, variance = self.mean, self.variance
        if self.training:
            mean, variance = x.mean(dim=0), x.var(dim=0, unbiased=False)
            self.mean.lerp_(mean, 0.1)
            self.variance.lerp_(variance, 0.1)
        return (x - mean) / torch.sqrt(variance + 1e-5)
