"""The accumulator is never reset: right once, wrong ever after.

id: C12
task: histogram
expect: mismatch/value_mismatch
probe: trials
"""


class ModelNew(nn.Module):
    def __init__(self, bins):
        super().__init__()
        self.counts = torch.zeros(bins, dtype=torch.int64)

    def forward(self, labels):
        self.counts = self.counts.to(labels.device)
        n = labels.numel()
        histogram_kernel[(triton.cdiv(n, 512),)](labels, self.counts, n, BLOCK=512)
        return self.counts.clone()
