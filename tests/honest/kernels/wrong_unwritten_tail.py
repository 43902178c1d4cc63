"""Wrong: a grid that is rounded down leaves the last elements unwritten.

task: gelu
expect: mismatch
"""


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        n = x.numel()
        gelu_kernel[(max(1, n // 4096 - (n % 4096 == 0)),)](x, out, n, BLOCK=4096)
        return out
