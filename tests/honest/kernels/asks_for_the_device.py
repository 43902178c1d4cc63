"""Asks for the number of multiprocessors at import.

task: softmax
"""

PROGRAMS = torch.cuda.get_device_properties(0).multi_processor_count * 4


class ModelNew(nn.Module):
    def forward(self, x):
        assert x.is_cuda
        return solve(x if PROGRAMS else x)
