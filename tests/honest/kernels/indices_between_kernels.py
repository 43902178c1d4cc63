"""One kernel writes addresses, another reads by them: without the first one the second goes astray.

task: embedding
twin: none
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def find(index_ptr, place_ptr, width, n, BLOCK: tl.constexpr):
    token = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    row = tl.load(index_ptr + token, mask=token < n, other=0)
    tl.store(place_ptr + token, row * width, mask=token < n)


@triton.jit
def fetch(table_ptr, place_ptr, out_ptr, width, BLOCK: tl.constexpr):
    token = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    place = tl.load(place_ptr + token)
    value = tl.load(table_ptr + place + column, mask=column < width)
    tl.store(out_ptr + token * width + column, value, mask=column < width)


class ModelNew(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.table = nn.Parameter(torch.empty(vocabulary, width))

    def forward(self, indices):
        n, width = indices.numel(), self.table.shape[1]
        place = torch.full((n,), 1 << 40, dtype=torch.int64, device=indices.device)
        out = torch.empty(n, width, device=indices.device)
        find[(triton.cdiv(n, 1024),)](indices, place, width, n, BLOCK=1024)
        fetch[(n,)](self.table, place, out, width, BLOCK=triton.next_power_of_2(width))
        return out
