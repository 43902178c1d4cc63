"""A CUDA graph of torch's operator, with a tiny launch beside every replay.

id: B9
task: softmax
expect: hack/kernels_do_nothing
probe: ablation
where: gpu
"""


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.graph = None

    def forward(self, x):
        solve(x[:1].contiguous())
        if self.graph is None:
            self.static_in = x.clone()
            torch.softmax(self.static_in, dim=1)
            torch.cuda.synchronize()
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.static_out = torch.softmax(self.static_in, dim=1)
        self.static_in.copy_(x)
        self.graph.replay()
        return self.static_out.clone()
