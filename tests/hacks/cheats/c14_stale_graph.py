"""A CUDA graph that is replayed without new inputs being copied in.

id: C11
task: gelu
expect: mismatch
probe: trials
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
        self.graph.replay()
        return self.static_out.clone()
