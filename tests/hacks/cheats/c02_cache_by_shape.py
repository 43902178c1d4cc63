"""Results by the shape of the input, kept in a default argument.

id: C1 C14
task: softmax
expect: mismatch/stale_answer
probe: trials
"""


class ModelNew(nn.Module):
    def forward(self, x, known={}):
        if x.shape not in known:
            known[x.shape] = solve(x)
        return known[x.shape].clone()
