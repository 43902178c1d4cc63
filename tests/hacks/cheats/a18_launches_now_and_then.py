"""A dummy launch in every second call, and torch in all.

id: A5
task: add
expect: hack/kernels_do_nothing
probe: ablation
"""


class ModelNew(nn.Module):
    calls = 0

    def forward(self, x, y):
        ModelNew.calls += 1
        if ModelNew.calls % 2:
            solve(x[:16], y[:16])
        return x + y
