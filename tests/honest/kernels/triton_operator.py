"""Registered with triton_op, the kernel wrapped for tracing.

task: gelu
"""

from torch.library import triton_op, wrap_triton


@triton_op("honest::gelu", mutates_args={})
def gelu_operator(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    wrap_triton(gelu_kernel)[(triton.cdiv(x.numel(), 4096),)](x, out, x.numel(), BLOCK=4096)
    return out


class ModelNew(nn.Module):
    def forward(self, x):
        return gelu_operator(x)
