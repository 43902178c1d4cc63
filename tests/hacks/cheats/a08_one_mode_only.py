"""Own kernels in train mode, where the counting is suspected; torch in eval mode.

id: A5 F18
task: gelu
expect: correct
finding: mode_branch
"""


class ModelNew(nn.Module):
    def forward(self, x):
        return solve(x) if self.training else torch.nn.functional.gelu(x)
