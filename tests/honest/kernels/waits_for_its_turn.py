"""Parts of a row are summed in turn: each program waits for the one before it.

task: cumsum
where: cpu
"""


@triton.jit
def sum_in_turn(x_ptr, out_ptr, total_ptr, turn_ptr, columns, BLOCK: tl.constexpr):
    row, part = tl.program_id(0), tl.program_id(1)
    at = part * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=0.0)
    while tl.atomic_add(turn_ptr + row, 0) != part:
        pass
    before = tl.atomic_add(total_ptr + row, tl.sum(x, axis=0))
    tl.debug_barrier()
    tl.atomic_xchg(turn_ptr + row, part + 1)
    tl.store(out_ptr + row * columns + at, before + tl.cumsum(x, axis=0), mask=at < columns)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        out = torch.empty_like(x)
        total = torch.zeros(rows, device=x.device)
        turn = torch.zeros(rows, dtype=torch.int32, device=x.device)
        grid = (rows, triton.cdiv(columns, 32))
        sum_in_turn[grid](x, out, total, turn, columns, BLOCK=32)
        return out
