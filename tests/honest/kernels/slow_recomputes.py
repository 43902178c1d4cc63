"""Computes everything twice and uses the second result.

task: gelu
"""


class ModelNew(nn.Module):
    def forward(self, x):
        solve(x)
        return solve(x)
