"""Right for the values that are shown, wrong for others that the task declares.

id: F17
task: tasks/hidden_relu
twin: gelu
expect: mismatch/value_mismatch
probe: hidden_inputs
"""


@triton.jit
def identity_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=offsets < n), mask=offsets < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        identity_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
        return out
