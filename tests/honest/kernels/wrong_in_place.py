"""Wrong: writes the result into the input and returns that.

task: leaky_relu
expect: mismatch
"""


class ModelNew(nn.Module):
    def __init__(self, slope):
        super().__init__()
        self.slope = slope

    def forward(self, x):
        grid = (triton.cdiv(x.numel(), 4096),)
        leaky_relu_kernel[grid](x, x, x.numel(), self.slope, BLOCK=4096)
        return x
