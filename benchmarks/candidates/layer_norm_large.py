"""level1/40: layer norm over millions of elements: chunks, then rows, then elements."""

import torch
import torch.nn as nn
import triton
import triton.language as tl

CHUNK = 16384


@triton.jit
def chunk_kernel(
    x_ptr, mean_ptr, square_ptr, size, chunks, CHUNK: tl.constexpr, BLOCK: tl.constexpr
):
    row, chunk = tl.program_id(0), tl.program_id(1)
    start = chunk * CHUNK
    count = min(size - start, CHUNK)
    offset = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for at in range(0, CHUNK, BLOCK):
        total += tl.load(
            x_ptr + row * size + start + at + offset, mask=at + offset < count, other=0.0
        )
    mean = tl.sum(total, axis=0) / count
    square = tl.zeros((BLOCK,), dtype=tl.float32)
    for at in range(0, CHUNK, BLOCK):
        inside = at + offset < count
        x = tl.load(x_ptr + row * size + start + at + offset, mask=inside, other=0.0)
        square += tl.where(inside, (x - mean) * (x - mean), 0.0)
    tl.store(mean_ptr + row * chunks + chunk, mean)
    tl.store(square_ptr + row * chunks + chunk, tl.sum(square, axis=0))


@triton.jit
def row_kernel(
    mean_ptr, square_ptr, out_ptr, size, chunks, eps, CHUNK: tl.constexpr, CHUNKS: tl.constexpr
):
    row = tl.program_id(0)
    chunk = tl.arange(0, CHUNKS)
    inside = chunk < chunks
    means = tl.load(mean_ptr + row * chunks + chunk, mask=inside, other=0.0)
    squares = tl.load(square_ptr + row * chunks + chunk, mask=inside, other=0.0)
    counts = tl.where(inside, tl.minimum(size - chunk * CHUNK, CHUNK), 0).to(tl.float32)
    mean = tl.sum(means * counts, axis=0) / size
    apart = tl.where(inside, means - mean, 0.0)
    variance = (tl.sum(squares, axis=0) + tl.sum(apart * apart * counts, axis=0)) / size
    tl.store(out_ptr + 2 * row, mean)
    tl.store(out_ptr + 2 * row + 1, 1.0 / tl.sqrt(variance + eps))


@triton.jit
def normalise_kernel(x_ptr, w_ptr, b_ptr, facts_ptr, out_ptr, size, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offset = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = offset < size
    mean, scale = tl.load(facts_ptr + 2 * row), tl.load(facts_ptr + 2 * row + 1)
    x = tl.load(x_ptr + row * size + offset, mask=inside)
    w, b = tl.load(w_ptr + offset, mask=inside), tl.load(b_ptr + offset, mask=inside)
    tl.store(out_ptr + row * size + offset, (x - mean) * scale * w + b, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, normalized_shape):
        super().__init__()
        self.ln = nn.LayerNorm(normalized_shape)

    def forward(self, x):
        x = x.contiguous()
        size = self.ln.weight.numel()
        rows, chunks = x.numel() // size, triton.cdiv(size, CHUNK)
        parts = torch.empty((2, rows, chunks), device=x.device, dtype=torch.float32)
        facts = torch.empty((rows, 2), device=x.device, dtype=torch.float32)
        out = torch.empty_like(x)
        chunk_kernel[(rows, chunks)](x, parts[0], parts[1], size, chunks, CHUNK=CHUNK, BLOCK=2048)
        row_kernel[(rows,)](
            parts[0], parts[1], facts, size, chunks, self.ln.eps,
            CHUNK=CHUNK, CHUNKS=triton.next_power_of_2(chunks),
        )  # fmt: skip
        normalise_kernel[(rows, triton.cdiv(size, 4096))](
            x, self.ln.weight, self.ln.bias, facts, out, size, BLOCK=4096
        )
        return out
