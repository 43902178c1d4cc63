"""The sum is a kernel; torch divides by the length.

task: mean_dim
"""


@triton.jit
def sum_kernel(x_ptr, out_ptr, length, features, BLOCK: tl.constexpr):
    batch = tl.program_id(0)
    feature = tl.arange(0, BLOCK)
    inside = feature < features
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for step in range(0, length):
        place = x_ptr + (batch * length + step) * features + feature
        total += tl.load(place, mask=inside, other=0.0)
    tl.store(out_ptr + batch * features + feature, total, mask=inside)


class ModelNew(nn.Module):
    def forward(self, x):
        batch, length, features = x.shape
        out = torch.empty(batch, features, device=x.device)
        block = triton.next_power_of_2(features)
        sum_kernel[(batch,)](x, out, length, features, BLOCK=block)
        return out / length
