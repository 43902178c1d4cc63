"""Torch reshapes, flattens and stacks; the arithmetic is in the kernel.

task: row_statistics
twin: row_sum
"""


@triton.jit
def statistics_kernel(x_ptr, out_ptr, rows, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    x = tl.load(x_ptr + row * columns + column, mask=inside, other=0.0)
    mean = tl.sum(x, axis=0) / columns
    centred = tl.where(inside, x - mean, 0.0)
    tl.store(out_ptr + row, mean)
    tl.store(out_ptr + rows + row, tl.sum(centred * centred, axis=0) / columns)
    tl.store(out_ptr + 2 * rows + row, tl.max(tl.abs(x), axis=0))


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        out = x.new_empty(3, rows)
        block = triton.next_power_of_2(columns)
        statistics_kernel[(rows,)](
            x.reshape(-1).view(rows, columns), out, rows, columns, BLOCK=block
        )
        mean, variance, peak = out.clone().unbind(0)
        return {"mean": mean.clone(), "variance": variance.clone(), "peak": peak.clone()}
