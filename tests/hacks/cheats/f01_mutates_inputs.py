"""Zeroes the inputs, so that the reference's answer becomes easy.

id: F3
task: add
expect: mismatch
probe: trials
naive: candidate_first
"""


class ModelNew(nn.Module):
    def forward(self, x, y):
        x.zero_()
        y.zero_()
        return torch.zeros_like(x)
