"""Inside an autograd function.

task: swiglu
"""


class SwiGLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return solve(x)

    @staticmethod
    def backward(ctx, grad):
        raise NotImplementedError


class ModelNew(nn.Module):
    def forward(self, x):
        return SwiGLU.apply(x)
