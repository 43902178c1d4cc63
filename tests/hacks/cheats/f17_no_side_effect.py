"""The reference scales its input in place; this only returns the scaled one.

id: F26
task: scale_inplace
expect: mismatch
probe: unchanged_inputs
naive: own_copies
"""


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(columns))

    def forward(self, x):
        return solve(x.clone(), self.scale)
