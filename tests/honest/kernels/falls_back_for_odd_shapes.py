"""Falls back to torch for inputs that are not contiguous, which do not come here.

task: gelu
"""


class ModelNew(nn.Module):
    def forward(self, x):
        if not x.is_contiguous() or x.dtype != torch.float32:
            return torch.nn.functional.gelu(x)
        return solve(x)
