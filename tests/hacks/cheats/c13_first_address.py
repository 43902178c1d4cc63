"""Computes from the tensor of the first call, whatever it is given: a graph's static input.

id: C11
task: gelu
expect: mismatch
probe: trials
"""


class ModelNew(nn.Module):
    first = None

    def forward(self, x):
        if ModelNew.first is None:
            ModelNew.first = x
        return solve(ModelNew.first)
