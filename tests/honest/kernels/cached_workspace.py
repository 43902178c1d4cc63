"""A workspace from a cache by shape, and a launch that was bound beforehand.

task: gelu
"""

import functools


@functools.lru_cache(maxsize=None)
def workspace(shape, dtype, device):
    return torch.empty(shape, dtype=dtype, device=device)


@triton.jit
def plain_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476)), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        scratch = workspace(tuple(x.shape), x.dtype, x.device)
        launch = functools.partial(plain_kernel[(triton.cdiv(x.numel(), 1024),)], BLOCK=1024)
        launch(x, scratch, x.numel())
        return scratch.clone()
