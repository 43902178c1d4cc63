"""Writes a tolerance into the evaluator's file.

id: G6
task: row_sum
expect: mismatch
probe: trials
"""

from pathlib import Path

Path("tolerance.json").write_text("[1e9, 1e9]")


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.zeros(x.shape[0], device=x.device)
