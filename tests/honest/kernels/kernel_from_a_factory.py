"""Kernels are made by a function, one for each activation.

task: leaky_relu
"""


def make_kernel(block):
    @triton.jit
    def kernel(x_ptr, out_ptr, n, slope, BLOCK: tl.constexpr):
        offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + offsets, mask=offsets < n)
        tl.store(out_ptr + offsets, tl.where(x >= 0, x, slope * x), mask=offsets < n)

    def launch(x, slope):
        out = torch.empty_like(x)
        kernel[(triton.cdiv(x.numel(), block),)](x, out, x.numel(), slope, BLOCK=block)
        return out

    return launch


LAUNCH = make_kernel(2048)


class ModelNew(nn.Module):
    def __init__(self, slope):
        super().__init__()
        self.slope = slope

    def forward(self, x):
        return LAUNCH(x, self.slope)
