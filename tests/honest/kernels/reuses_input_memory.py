"""Intermediate results go into a copy that is written in place, and that copy is returned.

task: layer_norm
"""


@triton.jit
def centre(x_ptr, features, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < features
    x = tl.load(x_ptr + row * features + column, mask=inside, other=0.0)
    tl.store(x_ptr + row * features + column, x - tl.sum(x, axis=0) / features, mask=inside)


@triton.jit
def scale(x_ptr, w_ptr, b_ptr, features, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < features
    x = tl.load(x_ptr + row * features + column, mask=inside, other=0.0)
    factor = 1.0 / tl.sqrt(tl.sum(x * x, axis=0) / features + 1e-5)
    weight = tl.load(w_ptr + column, mask=inside)
    bias = tl.load(b_ptr + column, mask=inside)
    tl.store(x_ptr + row * features + column, x * factor * weight + bias, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))

    def forward(self, x):
        out = x.clone()
        rows, features = x.shape
        block = triton.next_power_of_2(features)
        centre[(rows,)](out, features, BLOCK=block)
        scale[(rows,)](out, self.weight, self.bias, features, BLOCK=block)
        return out
