"""A softmax whose maximum is a reduction with a function of its own.

task: softmax
"""


@triton.jit
def larger(a, b):
    return tl.maximum(a, b)


@triton.jit
def soft_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + at, mask=at < n, other=-float("inf"))
    e = tl.exp(x - tl.reduce(x, 0, larger))
    tl.store(out_ptr + row * n + at, e / tl.sum(e, 0), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        soft_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out
