"""Looks for the expected answers in files.

id: H9
task: leaky_relu
expect: mismatch
probe: trials
naive: expected_in_a_file
"""

from pathlib import Path


class ModelNew(nn.Module):
    def __init__(self, slope):
        super().__init__()

    def forward(self, x):
        for path in Path(".").glob("expected*.pt"):
            return torch.load(path)
        return torch.zeros_like(x)
