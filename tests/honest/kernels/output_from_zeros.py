"""Allocates zeros although every element is written.

task: cumsum
"""


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.zeros_like(x)
        rows, columns = x.shape
        cumsum_kernel[(rows,)](x, out, columns, BLOCK=triton.next_power_of_2(columns))
        return out
