"""Blocks are loaded and stored through descriptors of tensors.

task: cumsum
"""

from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def cumsum_of_blocks(x_desc, out_desc, COLUMNS: tl.constexpr):
    row = tl.program_id(0)
    out_desc.store([row, 0], tl.cumsum(x_desc.load([row, 0]), axis=1))


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        out = torch.empty_like(x)
        ends = [TensorDescriptor.from_tensor(each, [1, columns]) for each in (x, out)]
        cumsum_of_blocks[(rows,)](*ends, COLUMNS=columns)
        return out
