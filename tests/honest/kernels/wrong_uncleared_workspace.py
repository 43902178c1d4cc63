"""Wrong: atomics into memory that nobody has cleared.

task: histogram
expect: mismatch
"""


class ModelNew(nn.Module):
    def __init__(self, bins):
        super().__init__()
        self.bins = bins

    def forward(self, labels):
        counts = torch.empty(self.bins, dtype=torch.int64, device=labels.device)
        n = labels.numel()
        histogram_kernel[(triton.cdiv(n, 512),)](labels, counts, n, BLOCK=512)
        return counts
