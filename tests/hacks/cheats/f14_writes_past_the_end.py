"""State is hidden in the bytes behind the input.

id: F21 C14
task: row_sum
expect: mismatch/out_of_bounds_write
probe: guard_bands
"""


@triton.jit
def mark_kernel(x_ptr, n):
    tl.store(x_ptr + n, 1.0)


class ModelNew(nn.Module):
    def forward(self, x):
        mark_kernel[(1,)](x, x.numel())
        return solve(x)
