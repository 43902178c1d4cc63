"""Takes most of the memory of the GPU, so that the reference has none.

id: H3
task: add
expect: correct
neutral: the reference has its memory, and is never timed beside a candidate
where: gpu
"""


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.hoard = []

    def forward(self, x, y):
        if not self.hoard:
            free, _ = torch.cuda.mem_get_info()
            self.hoard.append(torch.empty(int(free * 0.6), dtype=torch.uint8, device=x.device))
        return solve(x, y)
