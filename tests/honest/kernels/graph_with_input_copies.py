"""A CUDA graph that gets its inputs copied in and its output copied out.

task: gelu
where: gpu
"""


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.graph = None

    def forward(self, x):
        if self.graph is None:
            self.static_in = x.clone()
            solve(self.static_in)
            torch.cuda.synchronize()
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.static_out = solve(self.static_in)
        self.static_in.copy_(x)
        self.graph.replay()
        return self.static_out.clone()
