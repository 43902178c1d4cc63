"""Searches memory for the expected answer and returns it.

id: G2
task: softmax
expect: mismatch
probe: trials
"""

import gc


class ModelNew(nn.Module):
    def forward(self, x):
        for thing in gc.get_objects():
            if type(thing) is torch.Tensor and thing.shape == x.shape and thing is not x:
                if bool((thing.sum(dim=1) - 1.0).abs().max() < 1e-3):
                    return thing.clone()
        return torch.zeros_like(x)
