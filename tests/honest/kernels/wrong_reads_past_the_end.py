"""Wrong: no mask, so the sum takes in what lies behind the input.

task: row_sum
expect: mismatch
"""


@triton.jit
def unmasked_sum(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x = tl.load(x_ptr + row * columns + tl.arange(0, BLOCK))
    tl.store(out_ptr + row, tl.sum(x, axis=0))


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(x.shape[0], device=x.device)
        unmasked_sum[(x.shape[0],)](x, out, x.shape[1], BLOCK=512)
        return out
