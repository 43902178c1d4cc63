"""The first of two outputs only; a comparison by zip does not notice.

id: F11
task: max_argmax
expect: mismatch/structure_mismatch
probe: trials
"""


@triton.jit
def values_kernel(x_ptr, value_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + column, mask=column < columns, other=-float("inf"))
    tl.store(value_ptr + row, tl.max(x, axis=0))


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        values = torch.empty(rows, device=x.device)
        block = triton.next_power_of_2(columns)
        values_kernel[(rows,)](x, values, columns, BLOCK=block)
        return (values,)
