"""A matrix product of single precision is computed in half precision.

id: F8
task: matmul
expect: mismatch/value_mismatch
probe: protocol strict
protocol: strict
"""


class ModelNew(nn.Module):
    def forward(self, a, b):
        return solve(a.half(), b.half()).float()
