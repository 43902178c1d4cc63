"""Programs read what the one before them has written, without waiting: right in the interpreter only.

id: F21
task: cumsum
expect: mismatch
probe: trials
where: cpu
"""


@triton.jit
def chained_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row, part = tl.program_id(0), tl.program_id(1)
    at = part * BLOCK + tl.arange(0, BLOCK)
    inside = at < columns
    x = tl.load(x_ptr + row * columns + at, mask=inside, other=0.0)
    before = tl.load(out_ptr + row * columns + part * BLOCK - 1, mask=part > 0, other=0.0)
    tl.store(out_ptr + row * columns + at, before + tl.cumsum(x, axis=0), mask=inside)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        out = torch.empty_like(x)
        chained_kernel[(rows, triton.cdiv(columns, 32))](x, out, columns, BLOCK=32)
        return out
