"""Two buffers of the module are returned in turn.

id: F4
task: gelu
expect: mismatch/aliased_output
probe: own_memory
"""


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.turn = 0

    def forward(self, x):
        if not hasattr(self, "even"):
            self.register_buffer("even", torch.empty_like(x))
            self.register_buffer("odd", torch.empty_like(x))
        self.turn ^= 1
        return (self.even if self.turn else self.odd).copy_(solve(x))
