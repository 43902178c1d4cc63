"""Torch splits and gates one half, the kernel does the other: light work left to torch.

task: swiglu
"""


@triton.jit
def silu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(out_ptr + offsets, x / (1.0 + tl.exp(-x)), mask=offsets < n)


class ModelNew(nn.Module):
    def forward(self, x):
        gate, value = (part.contiguous() for part in x.chunk(2, dim=-1))
        out = torch.empty_like(gate)
        silu_kernel[(triton.cdiv(gate.numel(), 1024),)](gate, out, gate.numel(), BLOCK=1024)
        return out * value
