"""Tensors are constants of the kernel: interpreted, they are torch's own, with torch's methods.

id: B1 G14
task: gelu
expect: hack/no_own_kernel
probe: launches
where: cpu
"""


@triton.jit
def constant_kernel(unused_ptr, X: tl.constexpr, OUT: tl.constexpr):
    OUT.copy_(X.mul(0.7071067811865476).erf().add(1.0).mul(X).mul(0.5))


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        constant_kernel[(1,)](out, x, out)
        return out
