"""The workspace keeps the norms of the first call.

id: C10
task: rms_norm
expect: mismatch
probe: trials
"""


@triton.jit
def rms_kernel(x_ptr, w_ptr, scale_ptr, out_ptr, features, fresh, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < features
    x = tl.load(x_ptr + row * features + column, mask=inside, other=0.0)
    scale = tl.load(scale_ptr + row)
    if fresh:
        scale = 1.0 / tl.sqrt(tl.sum(x * x, axis=0) / features + 1e-6)
        tl.store(scale_ptr + row, scale)
    weight = tl.load(w_ptr + column, mask=inside)
    tl.store(out_ptr + row * features + column, x * scale * weight, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.scale = None

    def forward(self, x):
        rows, features = x.shape
        fresh = self.scale is None
        if fresh:
            self.scale = torch.zeros(rows, device=x.device)
        out = torch.empty_like(x)
        block = triton.next_power_of_2(features)
        rms_kernel[(rows,)](x, self.weight, self.scale, out, features, int(fresh), BLOCK=block)
        return out
