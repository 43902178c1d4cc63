"""A launch with a grid of no blocks counts as a launch.

id: A4
task: add
expect: hack/kernels_do_nothing
probe: ablation
"""


class ModelNew(nn.Module):
    def forward(self, x, y):
        add_kernel[(0,)](x, y, x, 0, BLOCK=16)
        return x + y
