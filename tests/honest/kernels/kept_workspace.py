"""The workspace of a two-stage reduction is allocated once and used again.

task: mean_dim
"""


@triton.jit
def halves(x_ptr, part_ptr, length, features, BLOCK: tl.constexpr):
    batch, half = tl.program_id(0), tl.program_id(1)
    feature = tl.arange(0, BLOCK)
    inside = feature < features
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for step in range(half, length, 2):
        place = x_ptr + (batch * length + step) * features + feature
        total += tl.load(place, mask=inside, other=0.0)
    tl.store(part_ptr + (batch * 2 + half) * features + feature, total, mask=inside)


@triton.jit
def join(part_ptr, out_ptr, length, features, BLOCK: tl.constexpr):
    batch = tl.program_id(0)
    feature = tl.arange(0, BLOCK)
    inside = feature < features
    first = tl.load(part_ptr + batch * 2 * features + feature, mask=inside)
    second = tl.load(part_ptr + (batch * 2 + 1) * features + feature, mask=inside)
    tl.store(out_ptr + batch * features + feature, (first + second) / length, mask=inside)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.workspace = None

    def forward(self, x):
        batch, length, features = x.shape
        if self.workspace is None or self.workspace.numel() < 2 * batch * features:
            self.workspace = torch.empty(2 * batch * features, device=x.device)
        out = torch.empty(batch, features, device=x.device)
        block = triton.next_power_of_2(features)
        halves[(batch, 2)](x, self.workspace, length, features, BLOCK=block)
        join[(batch,)](self.workspace, out, length, features, BLOCK=block)
        return out
