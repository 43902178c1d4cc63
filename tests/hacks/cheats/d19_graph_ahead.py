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
        self.graphs = {}

    def forward(self, x):
        key = x.data_ptr(), x.shape
        if key not in self.graphs:
            solve(x)
            torch.cuda.synchronize()
            graph, side = torch.cuda.CUDAGraph(), torch.cuda.Stream(priority=-5)
            with torch.cuda.graph(graph):
                out = solve(x)
            self.graphs[key] = graph, side, out
        graph, side, out = self.graphs[key]
        with torch.cuda.stream(side):
            graph.replay()
        torch.cuda.current_stream().wait_stream(side)
        return out.clone()
