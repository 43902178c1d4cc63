"""Wrong: the kernel forgets its input.

task: softmax
expect: mismatch
"""


@triton.jit
def uniform(out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    value = tl.full((BLOCK,), 1.0, dtype=tl.float32) / columns
    tl.store(out_ptr + row * columns + column, value, mask=column < columns)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        block = triton.next_power_of_2(x.shape[1])
        uniform[(x.shape[0],)](out, x.shape[1], BLOCK=block)
        return out
