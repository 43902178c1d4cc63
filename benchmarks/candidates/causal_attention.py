"""level3/43: causal attention with a running softmax, TF32; torch's linear layers."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def attention_kernel(
    qkv_ptr, out_ptr, length, heads, size, scale,
    BM: tl.constexpr, BN: tl.constexpr, SIZE: tl.constexpr,
):  # fmt: skip
    batch = (tl.program_id(1) // heads).to(tl.int64)
    head = tl.program_id(1) % heads
    width = heads * size
    base = qkv_ptr + batch * length * 3 * width + head * size
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    member = tl.arange(0, SIZE)
    is_member = (member < size)[None, :]
    q = tl.load(
        base + row[:, None] * 3 * width + member[None, :],
        mask=(row < length)[:, None] & is_member, other=0.0,
    )  # fmt: skip
    top = tl.full((BM,), -1e30, dtype=tl.float32)
    total = tl.zeros((BM,), dtype=tl.float32)
    out = tl.zeros((BM, SIZE), dtype=tl.float32)
    ends = min((tl.program_id(0) + 1) * BM, length)
    for start in range(0, ends, BN):
        column = start + tl.arange(0, BN)
        mask = (column < length)[:, None] & is_member
        place = column[:, None] * 3 * width + member[None, :]
        k = tl.load(base + width + place, mask=mask, other=0.0)
        v = tl.load(base + 2 * width + place, mask=mask, other=0.0)
        score = tl.dot(q, tl.trans(k), input_precision="tf32") * scale
        seen = (row[:, None] >= column[None, :]) & (column < length)[None, :]
        score = tl.where(seen, score, -1e30)
        higher = tl.maximum(top, tl.max(score, axis=1))
        p = tl.where(seen, tl.exp(score - higher[:, None]), 0.0)
        shrink = tl.exp(top - higher)
        total = total * shrink + tl.sum(p, axis=1)
        out = tl.dot(p, v, out * shrink[:, None], input_precision="tf32")
        top = higher
    target = out_ptr + (batch * length + row[:, None]) * width + head * size + member[None, :]
    tl.store(target, out / total[:, None], mask=(row < length)[:, None] & is_member)


def attend(qkv, heads):
    batch, length, width = qkv.shape
    size = width // 3 // heads
    out = torch.empty((batch, length, width // 3), device=qkv.device, dtype=qkv.dtype)
    grid = (triton.cdiv(length, 64), batch * heads)
    attention_kernel[grid](
        qkv.contiguous(), out, length, heads, size, size**-0.5,
        BM=64, BN=32, SIZE=max(16, triton.next_power_of_2(size)), num_warps=4, num_stages=2,
    )  # fmt: skip
    return out


class ModelNew(nn.Module):
    def __init__(self, n_embd, n_head, attn_pdrop, resid_pdrop, max_seqlen):
        super().__init__()
        assert attn_pdrop == 0.0 and resid_pdrop == 0.0
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)
        self.c_proj = nn.Linear(n_embd, n_embd)
        self.n_head = n_head

    def forward(self, x):
        return self.c_proj(attend(self.c_attn(x), self.n_head))
