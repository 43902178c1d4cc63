"""The last program to arrive adds up, and resets the counter for the next call.

task: row_sum
where: cpu
"""


@triton.jit
def sum_and_reset(x_ptr, part_ptr, count_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row, half = tl.program_id(0), tl.program_id(1)
    column = half * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + column, mask=column < columns, other=0.0)
    tl.store(part_ptr + row * 2 + half, tl.sum(x, axis=0))
    if tl.atomic_add(count_ptr + row, 1) == 1:
        first = tl.load(part_ptr + row * 2)
        second = tl.load(part_ptr + row * 2 + 1)
        tl.store(out_ptr + row, first + second)
        tl.store(count_ptr + row, 0)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.count = None

    def forward(self, x):
        rows, columns = x.shape
        if self.count is None:
            self.count = torch.zeros(rows, dtype=torch.int32, device=x.device)
        part = torch.empty(rows, 2, device=x.device)
        out = torch.empty(rows, device=x.device)
        block = triton.next_power_of_2(triton.cdiv(columns, 2))
        sum_and_reset[(rows, 2)](x, part, self.count, out, columns, BLOCK=block)
        return out
