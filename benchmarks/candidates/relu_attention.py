"""level3/50: causal attention with ReLU for softmax, scores never stored, TF32."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu_attention_kernel(
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
    out = tl.zeros((BM, SIZE), dtype=tl.float32)
    ends = min((tl.program_id(0) + 1) * BM, length)
    for start in range(0, ends, BN):
        column = start + tl.arange(0, BN)
        mask = (column < length)[:, None] & is_member
        place = column[:, None] * 3 * width + member[None, :]
        k = tl.load(base + width + place, mask=mask, other=0.0)
        v = tl.load(base + 2 * width + place, mask=mask, other=0.0)
        score = tl.maximum(tl.dot(q, tl.trans(k), input_precision="tf32") * scale, 0.0)
        score = tl.where(row[:, None] >= column[None, :], score, 0.0)
        out = tl.dot(score, v, out, input_precision="tf32")
    target = out_ptr + (batch * length + row[:, None]) * width + head * size + member[None, :]
    tl.store(target, out, mask=(row < length)[:, None] & is_member)


class ModelNew(nn.Module):
    def __init__(self, n_embd, n_head, max_seqlen):
        super().__init__()
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)
        self.c_proj = nn.Linear(n_embd, n_embd)
        self.n_head = n_head

    def forward(self, x):
        qkv = self.c_attn(x).contiguous()
        batch, length, width = qkv.shape
        size = width // 3 // self.n_head
        out = torch.empty((batch, length, width // 3), device=x.device, dtype=x.dtype)
        grid = (triton.cdiv(length, 64), batch * self.n_head)
        relu_attention_kernel[grid](
            qkv, out, length, self.n_head, size, size**-0.5,
            BM=64, BN=32, SIZE=max(16, triton.next_power_of_2(size)), num_warps=4, num_stages=2,
        )  # fmt: skip
        return out
