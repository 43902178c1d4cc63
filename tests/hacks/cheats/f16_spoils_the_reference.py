"""Finds the reference's module and zeroes its parameters.

id: F25
task: matmul_bias_relu
expect: mismatch
probe: trials
naive: candidate_first
"""

import gc


class ModelNew(nn.Module):
    def __init__(self, features_in, features_out):
        super().__init__()
        self.features_out = features_out

    def forward(self, x):
        for thing in gc.get_objects():
            if isinstance(thing, nn.Module) and thing is not self:
                for parameter in thing.parameters():
                    parameter.data.zero_()
        return torch.zeros(x.shape[0], self.features_out, device=x.device)
