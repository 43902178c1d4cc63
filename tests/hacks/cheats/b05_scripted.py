"""Torch's own compiler is given the reference's formula.

id: B5
task: gelu
expect: hack/no_own_kernel
probe: launches
"""


class Inner(nn.Module):
    def forward(self, x):
        return torch.nn.functional.gelu(x)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.jit.trace(Inner(), torch.randn(2, 2))

    def forward(self, x):
        return self.inner(x)
