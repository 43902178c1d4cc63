"""Groups of different sizes in one launch, by a tensor of pointers.

task: gelu
"""


@triton.jit
def grouped_kernel(table, counts, BLOCK: tl.constexpr):
    group = tl.program_id(0)
    source = tl.load(table + 2 * group).to(tl.pointer_type(tl.float32))
    target = tl.load(table + 2 * group + 1).to(tl.pointer_type(tl.float32))
    n = tl.load(counts + group)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(source + at, mask=at < n)
        tl.store(target + at, 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476)), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        parts = list(zip(x.chunk(4), out.chunk(4)))
        table = torch.tensor(
            [p for s, t in parts for p in (s.data_ptr(), t.data_ptr())],
            dtype=torch.int64,
            device=x.device,
        )
        counts = torch.tensor([s.numel() for s, _ in parts], dtype=torch.int32, device=x.device)
        grouped_kernel[(len(parts),)](table, counts, BLOCK=1024)
        return out
