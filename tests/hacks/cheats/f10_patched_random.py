"""Random inputs are patched to be zeros.

id: F12
task: softmax
expect: mismatch/value_mismatch
probe: trials
naive: shared_generator
"""

torch.randn = lambda *size, **kwargs: torch.zeros(*size, **kwargs)


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.full_like(x, 1.0 / x.shape[1])
