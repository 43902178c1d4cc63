"""Keeps the compiled kernel and launches that.

task: add
where: gpu
"""


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.handle = None

    def forward(self, x, y):
        out = torch.empty_like(x)
        grid = (triton.cdiv(x.numel(), 4096), 1, 1)
        self.handle = add_kernel[grid](x, y, out, x.numel(), BLOCK=4096)
        return out
