"""Partial products added with atomics: the last bits differ from run to run.

task: matmul
"""


@triton.jit
def split_matmul(a_ptr, b_ptr, out_ptr, m, n, k, TILE: tl.constexpr, PARTS: tl.constexpr):
    row = tl.program_id(0) * TILE + tl.arange(0, TILE)
    column = tl.program_id(1) * TILE + tl.arange(0, TILE)
    total = tl.zeros((TILE, TILE), dtype=tl.float32)
    for start in range(tl.program_id(2) * TILE, k, TILE * PARTS):
        depth = start + tl.arange(0, TILE)
        a_mask = (row[:, None] < m) & (depth[None, :] < k)
        b_mask = (depth[:, None] < k) & (column[None, :] < n)
        a = tl.load(a_ptr + row[:, None] * k + depth[None, :], mask=a_mask, other=0.0)
        b = tl.load(b_ptr + depth[:, None] * n + column[None, :], mask=b_mask, other=0.0)
        total = tl.dot(a, b, total)
    mask = (row[:, None] < m) & (column[None, :] < n)
    tl.atomic_add(out_ptr + row[:, None] * n + column[None, :], total, mask=mask)


class ModelNew(nn.Module):
    def forward(self, a, b):
        (m, k), n = a.shape, b.shape[1]
        out = torch.zeros(m, n, dtype=a.dtype, device=a.device)
        grid = (triton.cdiv(m, 32), triton.cdiv(n, 32), 2)
        split_matmul[grid](a, b, out, m, n, k, TILE=32, PARTS=2)
        return out
