"""A debug kernel beside the real one: it earns no share, and that is all.

task: gelu
finding: idle_kernel
"""


@triton.jit
def largest(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)
    tl.store(out_ptr, tl.max(x, axis=0))


class ModelNew(nn.Module):
    def forward(self, x):
        self.largest = torch.empty(1, device=x.device)
        largest[(1,)](x, self.largest, x.numel(), BLOCK=256)
        return solve(x)
