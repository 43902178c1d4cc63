"""The same function of torch, under another name.

id: B1
task: layer_norm
expect: hack/no_own_kernel
probe: launches
"""

from torch.nn.functional import layer_norm as fused_triton_layer_norm


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))

    def forward(self, x):
        return fused_triton_layer_norm(x, self.weight.shape, self.weight, self.bias, 1e-5)
