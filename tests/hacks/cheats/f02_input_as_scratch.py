"""Right, but the input is used as scratch memory.

id: F3
task: softmax
expect: mismatch/input_modified
probe: unchanged_inputs
"""


class ModelNew(nn.Module):
    def forward(self, x):
        x.sub_(x.amax(dim=1, keepdim=True))
        return solve(x)
