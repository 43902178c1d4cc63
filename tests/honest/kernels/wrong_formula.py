"""Wrong: weight and bias in the wrong order.

task: layer_norm
expect: mismatch
"""


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))

    def forward(self, x):
        return solve(x, self.bias, self.weight)
