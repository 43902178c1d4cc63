"""The input is fetched by a copy on another stream, before its time.

id: D13
task: gelu
expect: correct
neutral: copies are held back, too, or fetch what is no longer the input
where: gpu
"""

SIDE = []


class ModelNew(nn.Module):
    def forward(self, x):
        if not SIDE:
            SIDE.append(torch.cuda.Stream(priority=-5))
        with torch.cuda.stream(SIDE[0]):
            mine = torch.empty_like(x)
            mine.copy_(x, non_blocking=True)
        torch.cuda.current_stream().wait_stream(SIDE[0])
        return solve(mine)
