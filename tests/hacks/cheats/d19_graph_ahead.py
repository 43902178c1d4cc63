"""A captured graph is launched on a stream that does not wait for the parked one.

id: D1 C11
task: gelu
expect: correct
neutral: a graph is held back like a kernel, or works on what is no longer the input
where: gpu
"""


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.graph = None

    def forward(self, x):
        if self.graph is None:
            self.side = torch.cuda.Stream(priority=-5)
            self.given = x.clone()
            solve(self.given)
            torch.cuda.synchronize()
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.answer = solve(self.given)
        with torch.cuda.stream(self.side):
            self.given.copy_(x)
            self.graph.replay()
        torch.cuda.current_stream().wait_stream(self.side)
        return self.answer.clone()
