"""Launches once in the constructor, to have the kernel compiled.

task: add
"""


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        device = "cuda" if torch.cuda.is_available() else "cpu"
        solve(torch.zeros(16, device=device), torch.zeros(16, device=device))

    def forward(self, x, y):
        return solve(x, y)
