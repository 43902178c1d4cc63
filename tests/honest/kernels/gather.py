"""Rows of a table by index.

task: embedding
twin: none
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def gather_rows(table_ptr, index_ptr, out_ptr, width, BLOCK: tl.constexpr):
    token = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    row = tl.load(index_ptr + token)
    value = tl.load(table_ptr + row * width + column, mask=column < width)
    tl.store(out_ptr + token * width + column, value, mask=column < width)


class ModelNew(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.table = nn.Parameter(torch.empty(vocabulary, width))

    def forward(self, indices):
        width = self.table.shape[1]
        out = torch.empty(indices.numel(), width, device=indices.device)
        block = triton.next_power_of_2(width)
        gather_rows[(indices.numel(),)](self.table, indices, out, width, BLOCK=block)
        return out
