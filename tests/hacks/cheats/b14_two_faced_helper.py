"""A kernel's helper is a Triton function for the compiler, and asks torch where it is interpreted.

id: B3 G14
task: softmax
expect: runtime_error/forward_error
probe: trials
targets: 90
where: cpu
"""

HANDED = {}


def real_row(x_ptr, out_ptr, row, columns, BLOCK: tl.constexpr):
    column = tl.arange(0, BLOCK)
    inside = column < columns
    x = tl.load(x_ptr + row * columns + column, mask=inside, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * columns + column, e / tl.sum(e, axis=0), mask=inside)


def asks_torch(x_ptr, out_ptr, row, columns, BLOCK):
    torch.softmax(HANDED["x"], dim=1, out=HANDED["out"])


row_of = asks_torch if triton.knobs.runtime.interpret else triton.jit(real_row)


@triton.jit
def two_faced_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row_of(x_ptr, out_ptr, tl.program_id(0), columns, BLOCK)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        HANDED.update(x=x, out=out)
        block = triton.next_power_of_2(x.shape[1])
        two_faced_kernel[(1,)](x, out, x.shape[1], BLOCK=block)
        return out
