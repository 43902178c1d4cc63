"""Modules inside modules, with a pass and a comment about torch.softmax(x).

task: matmul_bias_relu
"""


class Layer(nn.Module):
    def __init__(self, features_in, features_out):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(features_out, features_in))
        self.bias = nn.Parameter(torch.empty(features_out))

    def forward(self, x):
        return solve(x, self.weight, self.bias)


class Marker:
    pass


class ModelNew(Layer):
    # Not torch.softmax(x), and not F.linear(x) either.
    pass
