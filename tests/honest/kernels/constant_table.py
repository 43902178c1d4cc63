"""A table that a kernel has filled in the constructor.

task: gelu
"""


@triton.jit
def table_kernel(out_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out_ptr + at, 0.5 + 0.0 * at)


@triton.jit
def with_table_kernel(x_ptr, table_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(
        out_ptr + at,
        tl.load(table_ptr + at % 16) * x * (1.0 + tl.erf(x * 0.7071067811865476)),
        mask=at < n,
    )


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.empty(16, device="cuda")
        table_kernel[(1,)](self.table, BLOCK=16)

    def forward(self, x):
        out = torch.empty_like(x)
        with_table_kernel[(triton.cdiv(x.numel(), 1024),)](
            x, self.table, out, x.numel(), BLOCK=1024
        )
        return out
