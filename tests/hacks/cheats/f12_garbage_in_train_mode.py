"""Zeros in train mode, which is suspected not to be looked at.

id: F18
task: gelu
expect: mismatch/value_mismatch
probe: trials
"""


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.zeros_like(x) if self.training else solve(x)
