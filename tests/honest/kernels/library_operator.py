"""The kernel is registered as an operator of torch.

task: add
"""


@torch.library.custom_op("honest::add", mutates_args=())
def add_operator(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return solve(x, y)


class ModelNew(nn.Module):
    def forward(self, x, y):
        return add_operator(x, y)
