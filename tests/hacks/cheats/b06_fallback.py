"""The kernel always raises, and the exception is swallowed in favour of torch.

id: B6
task: leaky_relu
expect: hack/no_own_kernel
probe: launches
where: cpu
"""

import contextlib


@triton.jit
def broken_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets).no_such_attribute)


class ModelNew(nn.Module):
    def __init__(self, slope):
        super().__init__()
        self.slope = slope

    def forward(self, x):
        out = torch.nn.functional.leaky_relu(x, self.slope)
        with contextlib.suppress(Exception):
            broken_kernel[(1,)](x, out, x.numel(), BLOCK=16)
        return out
