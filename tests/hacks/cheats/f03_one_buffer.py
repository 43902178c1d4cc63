"""The same buffer is returned every time.

id: F4
task: gelu
expect: mismatch
probe: held_outputs
"""


class ModelNew(nn.Module):
    buffer = None

    def forward(self, x):
        if ModelNew.buffer is None:
            ModelNew.buffer = torch.empty_like(x)
        return ModelNew.buffer.copy_(solve(x))
