"""One kernel clears the counts, another adds to them.

task: histogram
"""


@triton.jit
def clear(counts_ptr, bins, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(counts_ptr + offsets, tl.zeros((BLOCK,), dtype=tl.int64), mask=offsets < bins)


class ModelNew(nn.Module):
    def __init__(self, bins):
        super().__init__()
        self.bins = bins

    def forward(self, labels):
        counts = torch.empty(self.bins, dtype=torch.int64, device=labels.device)
        clear[(1,)](counts, self.bins, BLOCK=triton.next_power_of_2(self.bins))
        n = labels.numel()
        histogram_kernel[(triton.cdiv(n, 512),)](labels, counts, n, BLOCK=512)
        return counts
