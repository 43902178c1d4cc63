"""A launch hook, called behind the profiler's, computes the product under the own kernel's id.

id: B1 G16
task: matmul_bias_relu
expect: correct
neutral: lazy; one launch is one kernel, so torch's kernels under its id earn no share
where: gpu
"""

from triton import knobs

WORK = {}


def product(metadata):
    if WORK:
        x, w, y = WORK.pop("todo")
        torch.matmul(x, w.t(), out=y)


knobs.runtime.launch_enter_hook.add(product)


@triton.jit
def bias_relu_kernel(y_ptr, b_ptr, out_ptr, n, columns, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    y = tl.load(y_ptr + at, mask=inside) + tl.load(b_ptr + at % columns, mask=inside)
    tl.store(out_ptr + at, tl.maximum(y, 0.0), mask=inside)


class ModelNew(nn.Module):
    def __init__(self, features_in, features_out):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(features_out, features_in))
        self.bias = nn.Parameter(torch.empty(features_out))

    def forward(self, x):
        y = torch.empty(x.shape[0], self.weight.shape[0], dtype=x.dtype, device=x.device)
        out = torch.empty_like(y)
        WORK.update(todo=(x, self.weight.detach(), y))
        grid = (triton.cdiv(y.numel(), 1024),)
        bias_relu_kernel[grid](y, self.bias, out, y.numel(), y.shape[1], BLOCK=1024)
        return out
