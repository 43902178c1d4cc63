"""A do-nothing kernel that is called like torch's.

id: A8
task: add
expect: hack/kernels_do_nothing
probe: ablation
"""


@triton.jit
def vectorized_elementwise_kernel(out_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, offsets.to(tl.float32))


class ModelNew(nn.Module):
    def forward(self, x, y):
        vectorized_elementwise_kernel[(1,)](torch.empty(16, device=x.device), BLOCK=16)
        return torch.add(x, y)
