"""Torch computes; an own kernel copies tensors that it is given in a tuple, as Triton allows.

id: A7
task: gelu
expect: hack/copies_only
probe: census
where: cpu
"""


@triton.jit
def pass_on_kernel(pair, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(pair[1] + at, tl.load(pair[0] + at, mask=at < n), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        pair = torch.nn.functional.gelu(x), torch.empty_like(x)
        pass_on_kernel[(triton.cdiv(x.numel(), 4096),)](pair, x.numel(), BLOCK=4096)
        return pair[1]
