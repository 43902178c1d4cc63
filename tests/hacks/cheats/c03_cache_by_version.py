"""Results by the address and version counter of the input.

id: C2
task: add
expect: mismatch/stale_answer
probe: trials
"""

KNOWN = {}


class ModelNew(nn.Module):
    def forward(self, x, y):
        key = (x.data_ptr(), x._version, y.data_ptr(), y._version)
        if key not in KNOWN:
            KNOWN[key] = solve(x, y)
        return KNOWN[key].clone()
