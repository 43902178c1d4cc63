"""Launched through run, with the grid as a keyword.

task: add
"""


class ModelNew(nn.Module):
    kernel = add_kernel

    def forward(self, x, y):
        out = torch.empty_like(x)
        n = x.numel()
        self.kernel.run(x, y, out, n, BLOCK=4096, grid=(triton.cdiv(n, 4096),), warmup=False)
        return out
