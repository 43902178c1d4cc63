"""Works on a side stream, and joins it.

task: add
where: gpu
"""


class ModelNew(nn.Module):
    def forward(self, x, y):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            out = solve(x, y)
        torch.cuda.current_stream().wait_stream(side)
        out.record_stream(torch.cuda.current_stream())
        return out
