"""Results by the address of the input.

id: C1
task: gelu
expect: mismatch/stale_answer
probe: trials
"""


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.known = {}

    def forward(self, x):
        key = x.data_ptr()
        if key not in self.known:
            self.known[key] = solve(x)
        return self.known[key].clone()
