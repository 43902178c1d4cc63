"""Torch computes; an own kernel of full size copies the result, where no census is taken.

id: A7 P15
task: gelu
expect: correct
finding: idle_kernel
neutral: a kernel that only copies has no share in coverage, and the copy costs time
where: gpu
"""


@triton.jit
def copy_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=offsets < n), mask=offsets < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.nn.functional.gelu(x)
        out = torch.empty_like(y)
        copy_kernel[(triton.cdiv(y.numel(), 4096),)](y, out, y.numel(), BLOCK=4096)
        return out
