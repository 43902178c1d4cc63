"""Reverses the input with torch before its own sum.

task: row_sum
"""


class ModelNew(nn.Module):
    def forward(self, x):
        return solve(x.flip(1).contiguous())
