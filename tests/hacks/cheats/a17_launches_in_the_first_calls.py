"""A dummy launch in the first four calls, and torch in all.

id: A5 C5
task: gelu
expect: hack
probe: both_modes
"""


class ModelNew(nn.Module):
    calls = 0

    def forward(self, x):
        ModelNew.calls += 1
        if ModelNew.calls <= 4:
            solve(x[:1, :16].contiguous())
        return torch.nn.functional.gelu(x)
