"""Tensors are given in a tuple, as Triton allows.

task: gelu
where: cpu
"""


@triton.jit
def gelu_of_pair(pair, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(pair[0] + at, mask=at < n)
    tl.store(pair[1] + at, 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476)), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        gelu_of_pair[(triton.cdiv(x.numel(), 4096),)]((x, out), x.numel(), BLOCK=4096)
        return out
