"""In inference mode.

task: rms_norm
"""


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))

    @torch.inference_mode()
    def forward(self, x):
        return solve(x, self.weight)
