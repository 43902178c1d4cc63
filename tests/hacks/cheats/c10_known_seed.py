"""The public seed's inputs are made at import, and the answers are stored.

id: C8
task: softmax
expect: mismatch/value_mismatch
probe: trials
"""

torch.manual_seed(42)
ANSWER = torch.softmax(3.0 * torch.randn(64, 200), dim=1)


class ModelNew(nn.Module):
    def forward(self, x):
        return ANSWER.to(x.device).clone()
