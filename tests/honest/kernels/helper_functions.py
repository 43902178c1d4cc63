"""Device functions that kernels call.

task: gelu
"""


@triton.jit
def cdf(x):
    return 0.5 * (1.0 + tl.erf(x * 0.7071067811865476))


@triton.jit
def times_cdf(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(out_ptr + offsets, x * cdf(x), mask=offsets < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        times_cdf[(triton.cdiv(x.numel(), 2048),)](x, out, x.numel(), BLOCK=2048)
        return out
