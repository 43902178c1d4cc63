"""The answer of this task is always zero; the kernel adds to zeros what there is to add.

task: tasks/always_zero
twin: add
"""


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.zeros_like(x)
        add_kernel[(triton.cdiv(x.numel(), 1024),)](x, -x, out, x.numel(), BLOCK=1024)
        return out
