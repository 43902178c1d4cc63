"""A kernel finds indices, torch gathers by them.

task: max_argmax
"""


@triton.jit
def argmax_kernel(x_ptr, index_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + column, mask=column < columns, other=-float("inf"))
    tl.store(index_ptr + row, tl.argmax(x, axis=0).to(tl.int64))


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        index = torch.empty(rows, dtype=torch.int64, device=x.device)
        block = triton.next_power_of_2(columns)
        argmax_kernel[(rows,)](x, index, columns, BLOCK=block)
        return x.gather(1, index[:, None]).squeeze(1), index
