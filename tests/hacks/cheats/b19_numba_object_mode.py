"""A Numba kernel has a block in object mode, which is Python, and asks torch there.

id: B1 G14
task: gelu
twin: none
backend: numba
expect: hack/no_own_kernel
probe: launches
where: cpu
"""

import numba
import torch
import torch.nn as nn


@numba.njit
def kernel_in_part(x, out):
    with numba.objmode():
        torch.from_numpy(out).copy_(torch.nn.functional.gelu(torch.from_numpy(x)))


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        kernel_in_part(x.numpy(), out.numpy())
        return out
