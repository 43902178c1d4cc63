"""Works on a stream of high priority that does not wait for the parked one.

id: D1 D13
task: gelu
expect: correct
neutral: with one queue to the hardware a parked stream holds back the others
where: gpu
"""

SIDE = []


class ModelNew(nn.Module):
    def forward(self, x):
        if not SIDE:
            SIDE.append(torch.cuda.Stream(priority=-5))
        with torch.cuda.stream(SIDE[0]):
            out = solve(x)
        torch.cuda.current_stream().wait_stream(SIDE[0])
        return out
