"""Waits for the device inside, so that its flag is raised late.

id: D8
task: softmax
expect: correct
neutral: a late bracket is timed by the marks, waiting included
where: gpu
"""


class ModelNew(nn.Module):
    def forward(self, x):
        torch.cuda.current_stream().synchronize()
        out = solve(x)
        torch.cuda.current_stream().synchronize()
        return out
