"""Nine rows of ten are computed.

id: F13 F14
task: gelu
expect: mismatch
probe: trials
naive: matched_ratio
"""


class ModelNew(nn.Module):
    def forward(self, x):
        rows = x.shape[0] - max(1, x.shape[0] // 12)
        out = torch.zeros_like(x)
        out[:rows] = solve(x[:rows].contiguous())
        return out
