"""Works in place on a copy of the input.

task: scale_inplace
twin: scale_inplace
"""


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(columns))

    def forward(self, x):
        x.copy_(solve(x.clone(), self.scale))
        return x
