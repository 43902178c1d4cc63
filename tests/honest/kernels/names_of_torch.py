"""Kernels and functions that are called like torch's.

task: softmax
"""


@triton.jit
def softmax(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    x = tl.load(x_ptr + row * columns + column, mask=inside, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * columns + column, e / tl.sum(e, axis=0), mask=inside)


def relu(x):
    out = torch.empty_like(x)
    block = triton.next_power_of_2(x.shape[1])
    softmax[(x.shape[0],)](x, out, x.shape[1], BLOCK=block)
    return out


class ModelNew(nn.Module):
    def forward(self, x):
        return relu(x)
