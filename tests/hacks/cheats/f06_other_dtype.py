"""The answer comes in half precision.

id: F10
task: softmax
expect: mismatch/dtype_mismatch
probe: exact_types
"""


class ModelNew(nn.Module):
    def forward(self, x):
        return solve(x).half()
