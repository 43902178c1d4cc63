"""Made into a kernel by a call, not by a decorator.

task: add
"""


def add_body(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    total = tl.load(x_ptr + offsets, mask=inside) + tl.load(y_ptr + offsets, mask=inside)
    tl.store(out_ptr + offsets, total, mask=inside)


summing = triton.jit(add_body)


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        summing[(triton.cdiv(x.numel(), 1024),)](x, y, out, x.numel(), BLOCK=1024)
        return out
