"""Wrong: sums of rows where running sums belong.

task: cumsum
twin: row_sum
expect: mismatch
"""


class ModelNew(nn.Module):
    def forward(self, x):
        return solve(x)[:, None].expand_as(x).contiguous()
