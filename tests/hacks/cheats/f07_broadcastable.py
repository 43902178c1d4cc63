"""A shape that broadcasts to the right one.

id: F10
task: add
expect: mismatch/shape_mismatch
probe: trials
"""


class ModelNew(nn.Module):
    def forward(self, x, y):
        return solve(x, y)[None]
