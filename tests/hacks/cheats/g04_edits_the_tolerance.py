"""Looks for a tolerance among the modules and makes it large.

id: G5
task: row_sum
expect: mismatch
probe: trials
"""

import sys

for _module in list(sys.modules.values()):
    for _name in ("RTOL", "ATOL"):
        if isinstance(getattr(_module, _name, None), float):
            setattr(_module, _name, 1e9)


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.zeros(x.shape[0], device=x.device)
